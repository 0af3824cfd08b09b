"""Write docs/metrics.md from the table of metrics: ``python -m tools.metrics_page``; with ``--check``, only compare."""

import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.edge.metric_family import Family
from gateway.edge.metric_table import CHAPTERS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_OPENING = """\
# Metrics

*Written by `python -m tools.metrics_page` from `gateway/edge/metric_table.py`; a test holds both to what the gateway shows.*

`GET /metrics` is Prometheus' text format. With keys, it wants the admin key; see [sessions.md](sessions.md).

- **Labels are bounded.** Each has the values listed here; anything else is counted as `other`, which no gateway should show. Session ids, model names, URLs
  and texts are never labels. `engine` and `rank` have one value for each that is there: their series go with them.
- **`engine` is `host:port`**, with the port that the scheme implies where the URL names none. An engine below a path has eight hexadecimal
  digits of its URL's digest behind that, `host:port/0f3a9c21`: what stands in a path may be secret.
- **Series are there from the start**, at zero, so that a rate is known before the first failure. Where there is one for each engine or rank they begin with that.
- Counters are of this process, and begin at zero with it. They say nothing of what a store brought back.
"""
_CLOSING = """\
## What is measured where

**A call** is a request on a route of turns, whatever becomes of it; it counts once, as its handler ends:

| result | |
|---|---|
| `answered` | all of its answer has left for its client, sampled for it |
| `replayed` | the same, sampled for an earlier call that it repeats: joined or replayed |
| `refused` | it was told an error below 500: a wrong key, an ill body, a session that is finished |
| `failed` | it was told an error from 500 on, be it within a stream: no engine, or one that failed |
| `left` | its client hung up, or took nothing for too long, before it was answered; or the gateway ended |

**Turns** and tokens are counted when a turn is recorded. A call may be none (refused), one, or several (`n`, and what was sampled before a restart);
a replayed call is none. `gateway_prompt_prefix_tokens_total` of both sources together is `gateway_tokens_total{type="prompt"}`.

**`gateway_time_to_first_token_seconds`**, once for each answer, streamed or not: from when the call's head was read to the first event of the engine with ids.
Reading the body, the prompt, the queue, pauses and the prefill are all in it. An answer that was cut or made anew counts with its first id; a replayed one does not count.

**`gateway_inter_token_seconds`**: between two events of one call of an engine, divided by the ids of the second, and counted once for each of them. Ids of the first event count
for nothing, nor does the gap of a cut. When engines put eight ids into an event (`--stream-interval-tokens`) this is the mean over the eight.

**`gateway_phase_seconds`**:

| phase | what it takes | counted |
|---|---|---|
| `decode` | the body, once it is there | each call |
| `match` | finding the session, where none is named, and the longest known path | each call that begins a turn |
| `render` | the renderer's work, its wait for a thread included: the prompt before, the message after; not what is read while an answer streams | likewise |
| `queue` | waiting for a rank, but for pauses | each lease that was had |
| `engine` | a call of an engine, from the request to its last event or its cut | each of them |
| `put` | the store | each call that records a turn |
| `encode` | writing the answer; of a stream, all of its events | each answer that is sent |

The gateway's own overhead, in seconds a call:

```promql
sum(rate(gateway_phase_seconds_sum{phase!~"queue|engine"}[5m])) / sum(rate(gateway_calls_total{result="answered"}[5m]))
```

The share of prompt tokens that did not need to be rendered again, and what broke the other rows:

```promql
sum(rate(gateway_prompt_prefix_tokens_total{source="reused"}[15m])) / sum(rate(gateway_prompt_prefix_tokens_total[15m]))
sum by (reason) (rate(gateway_prompts_total{how="rendered", reason!="first_turn"}[15m]))
```

**`gateway_event_loop_lag_seconds`**: a task sleeps for 0.1 s, over and over, and measures by how much it wakes too late, whether anybody scrapes or not.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_OPENING, *_chapters(), _CLOSING])


def _chapters() -> Iterator[str]:
    for title, families in CHAPTERS.items():
        rows = "\n".join(map(_row, families))
        yield f"## {title}\n\n| metric | type, unit | what | look at it for |\n|---|---|---|---|\n{rows}\n"


def _row(family: Family) -> str:
    labels = "".join(f"<br>`{name}`: {_values(family, name)}" for name in family.labels)
    return f"| `{family.name}` | {family.kind}, {family.unit} | {family.help}{labels} | {family.look} |"


def _values(family: Family, label: str) -> str:
    values = family.labels[label]
    if values is None:
        return "`host:port`" if label == "engine" else "its number"
    return (
        "the version"
        if family.name == "gateway_build_info"
        else ", ".join(f"`{value}`" if value else "none" for value in values)
    )


def main() -> int:
    """Write the page, or say whether it is as it should be."""
    if "--check" in sys.argv[1:]:
        same = PAGE.read_text(encoding="utf-8") == page()
        print("docs/metrics.md is as the table has it" if same else "docs/metrics.md: run python -m tools.metrics_page")
        return 0 if same else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
