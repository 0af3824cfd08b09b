"""What is true: sessions, turns, prompts and rows. Standard library only; no clock, randomness, input or output."""
