"""``gateway sessions``: the sessions of a running gateway, from the command line."""
