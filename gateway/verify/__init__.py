"""Does a file of rows keep what it claims? Every claim of ``docs/certificate.md`` is derived again from the file alone.

Nothing here is shared with what writes rows: a mistake in one of both is found by the other.
"""
