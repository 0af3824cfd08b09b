"""What each route takes and answers, for ``/openapi.json``: the table of which that is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from gateway.wire import admin_bodies as admin
from gateway.wire import session_bodies as sessions
from gateway.wire import trajectory_bodies as rows
from gateway.wire.chat_answer_body import ChatCompletion, ChatCompletionChunk
from gateway.wire.chat_body import ChatRequest

JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
COLUMNS = "application/vnd.apache.arrow.stream"
Opens = Literal["nobody's", "agent", "admin"]
"""Whose key opens a route; the admin's opens those of agents, too."""

TurnHeaders = TypedDict(
    "TurnHeaders",
    {
        "X-Session-ID": Annotated[str, Field(description="The session, where the path does not say it.")],
        "Idempotency-Key": Annotated[
            str, Field(description="Calls of one key get one answer; with another body it is refused.", max_length=255)
        ],
        "x-stainless-retry-count": Annotated[
            str, Field(description="Above 0, marks a retry: it joins the call, or has its answer replayed.")
        ],
        "x-gateway-tag": Annotated[str, Field(description="Tags of the turn: `name=value`, with commas between.")],
        "x-gateway-train": Annotated[
            Literal["true", "false", "1", "0", "yes", "no"],
            Field(description="Whether the turn is to be trained on; `true` where nothing is said."),
        ],
        "X-data-parallel-rank": Annotated[str, Field(description="The rank that must answer.", pattern="^[0-9]{1,4}$")],
    },
    total=False,
)
CreationHeaders = TypedDict(
    "CreationHeaders",
    {"X-Session-ID": Annotated[str, Field(description="The session's id, where the body does not say it.")]},
    total=False,
)
TURN_ANSWER_HEADERS = {
    "x-session-id": "The session that the turn is in.",
    "x-turn-id": "The turn; with `n`, all of them, with commas between.",
    "x-policy-version": "The policy that was announced last when the call came.",
    "x-accel-buffering": "`no` on a stream: a proxy is to send on what it gets.",
    "x-gateway-replayed": "`true` where a retry got the answer of an earlier call.",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One route with one method."""

    name: str
    """Its `operationId`."""
    topic: str
    opens: Opens = "admin"
    answer: object = None
    """The type of its JSON answer; ``None`` where there is none."""
    statuses: tuple[int, ...] = (200,)
    """Of that answer."""
    body: object = None
    """The type of its body; ``None`` where there is none."""
    body_required: bool = False
    query: tuple[object, ...] = ()
    headers: tuple[object, ...] = ()
    """The types whose fields are its parameters."""
    media: Mapping[str, object] | None = None
    """Other media types that it answers in, each with the type of one event or line; ``None`` is bytes."""
    answer_headers: Mapping[str, str] | None = None
    also: tuple[int | str, ...] = ()
    """Statuses of errors, beside those that all routes of its kind have."""


_ROWS = {LINES: rows.Line, COLUMNS: None}


def _turn(name: str) -> Operation:
    return Operation(
        name,
        "agents",
        "agent",
        ChatCompletion,
        body=ChatRequest,
        body_required=True,
        headers=(TurnHeaders,),
        media={EVENTS: ChatCompletionChunk | admin.ErrorBody},
        answer_headers=TURN_ANSWER_HEADERS,
        also=("4XX", 404, 409, 429, 502, 503),
    )


def _models(name: str) -> Operation:
    return Operation(name, "agents", "agent", admin.Models, also=("4XX", 502, 503))


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/chat/completions"): _turn("take_turn"),
    ("POST", "/sessions/{sid}/v1/chat/completions"): _turn("take_session_turn"),
    ("GET", "/v1/models"): _models("list_models"),
    ("GET", "/sessions/{sid}/v1/models"): _models("list_session_models"),
    ("POST", "/sessions"): Operation(
        "create_session",
        "sessions",
        answer=sessions.SessionCreated,
        statuses=(201,),
        body=sessions.SessionCreation,
        headers=(CreationHeaders,),
        also=(409, 503),
    ),
    ("GET", "/sessions"): Operation(
        "list_sessions", "sessions", answer=sessions.SessionsPage, query=(sessions.SessionsParameters,), also=(400,)
    ),
    ("GET", "/sessions/{sid}"): Operation("show_session", "sessions", answer=sessions.Session, also=(404,)),
    ("DELETE", "/sessions/{sid}"): Operation("delete_session", "sessions", statuses=(204,), also=(404,)),
    ("POST", "/sessions/{sid}/finish"): Operation(
        "finish_session", "sessions", answer=sessions.Session, body=sessions.SessionFinish, also=(404, 409)
    ),
    ("GET", "/sessions/{sid}/turns"): Operation(
        "list_turns", "rows", answer=rows.TurnsPage, query=(rows.TurnsParameters,), also=(400, 404)
    ),
    ("GET", "/sessions/{sid}/trajectories"): Operation(
        "list_session_rows",
        "rows",
        answer=rows.RowsPage,
        query=(rows.RowsParameters,),
        media=_ROWS,
        also=(400, 404, 406),
    ),
    ("GET", "/trajectories"): Operation(
        "list_rows",
        "rows",
        answer=rows.RowsPage,
        query=(rows.RowsParameters, rows.PullParameters),
        media=_ROWS,
        also=(400, 406),
    ),
    ("POST", "/trajectories/ack"): Operation(
        "acknowledge_rows", "rows", answer=sessions.Freed, body=sessions.Acknowledgement, body_required=True
    ),
    ("POST", "/score"): Operation(
        "score_row", "rows", answer=admin.Scores, body=admin.ScoreBody, body_required=True, also=("4XX", 502, 503)
    ),
    ("GET", "/admin/engines"): Operation("list_engines", "engines", answer=admin.Engines),
    ("POST", "/admin/engines"): Operation(
        "change_engine", "engines", answer=admin.Engine, body=admin.EngineBody, body_required=True, also=(404,)
    ),
    ("DELETE", "/admin/engines"): Operation(
        "remove_engine",
        "engines",
        answer=admin.EngineRemoved,
        body=admin.EngineName,
        query=(admin.EngineParameters,),
        also=(404,),
    ),
    ("GET", "/admin/pause"): Operation("show_pauses", "weight sync", answer=admin.Pauses),
    ("POST", "/admin/pause"): Operation(
        "pause", "weight sync", answer=admin.Pauses, body=admin.PauseBody, body_required=True, also=(409, 502, 503)
    ),
    ("POST", "/admin/resume"): Operation(
        "resume", "weight sync", answer=admin.Pauses, body=admin.ResumeBody, also=(409, 502, 503)
    ),
    ("GET", "/admin/policy"): Operation("show_policy", "weight sync", answer=admin.Policy),
    ("POST", "/admin/policy"): Operation(
        "announce_policy", "weight sync", answer=admin.Policy, body=admin.PolicyBody, body_required=True
    ),
    ("POST", "/admin/drain"): Operation("drain", "the process", answer=admin.Draining),
    ("GET", "/metrics"): Operation("metrics", "the process", media={"text/plain": None}),
    ("GET", "/health"): Operation("health", "the process", "nobody's", admin.Health),
    ("GET", "/ready"): Operation("ready", "the process", "nobody's", admin.Readiness, statuses=(200, 503)),
    ("GET", "/openapi.json"): Operation("describe", "the process", "nobody's", dict[str, object]),
    ("GET", "/docs"): Operation("read_description", "the process", "nobody's", media={"text/html": None}),
}
"""By method and path, as aiohttp writes it."""
