"""``gateway audit``: exported rows, scored by engines, beside what was recorded when they were sampled."""
