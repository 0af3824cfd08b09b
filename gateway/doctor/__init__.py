"""``gateway doctor``: a user's agent before a gateway, and what its harness does to the history that it sends back."""
