"""Rows of a running gateway as a file."""
