"""How it is written: bytes to our types and back, one file per dialect."""
