"""``gateway engines``: the engines of a running gateway, from the command line."""
