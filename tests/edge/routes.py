"""The routes of each kind, and keys that open them."""

AGENT_ROUTES = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/sessions/s/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/sessions/s/v1/models"),
]
ADMIN_ROUTES = [
    ("GET", "/sessions/s/turns"),
    ("GET", "/sessions/s/trajectories"),
    ("GET", "/trajectories"),
    ("GET", "/metrics"),
]
OPEN_ROUTES = [("GET", path) for path in ("/health", "/ready", "/openapi.json", "/docs")]
KEYS = {"agent_key": "a-key-for-agents", "admin_key": "a-key-for-the-trainer"}


def bearer(key: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"Authorization": f"Bearer {key}"}
