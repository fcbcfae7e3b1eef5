"""What depends on a vendor or on a board, and nothing else does."""
