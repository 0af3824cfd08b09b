"""Supervised rows: conversations that were not sampled here, as ids and a loss mask."""
