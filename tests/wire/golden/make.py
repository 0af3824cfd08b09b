"""Make the payload part of the files in `generate/` from a folder of captures.

    python tests/wire/golden/make.py CAPTURES

CAPTURES holds one folder for each version of vLLM (``v0.32.0``, ``v0.20.2``), and in it one JSON file for each
call: ``{"request": …, "response": {"status", "raw"}}``, where `raw` is the body as it came, server-sent events
included. Each capture named below becomes ``generate/<version>-<name>.json``, with the ``expected`` part kept
from the file that is there. A new file expects ``null``, which no answer is: its test fails until somebody
has read the capture and written down what it means.
"""

import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parent / "generate"
BOTH = ("v0.32.0", "v0.20.2")
NEW = ("v0.32.0",)

ANSWERS = {
    "derender_src_generate": BOTH,
    "dev_generate_aborted_by_pause": BOTH,
    "dev_generate_version_change_midway": BOTH,
    "generate_basic": BOTH,
    "generate_detokenize_false": BOTH,
    "generate_finish_length": BOTH,
    "generate_finish_stop_token": BOTH,
    "generate_logit_bias_endoftext": BOTH,
    "generate_logit_bias_eos": BOTH,
    "generate_logprobs0": BOTH,
    "generate_logprobs1": BOTH,
    "generate_logprobs3": BOTH,
    "generate_n2": BOTH,
    "generate_repetition_detection": BOTH,
    "generate_stop_string": NEW,
    "generate_stop_string_tokens_mode": BOTH,
    "generate_text_mode": BOTH,
    "scripted_generate": NEW,
}
"""Whole answers, a JSON object each."""

STREAMS = {
    "err_stream_too_long": BOTH,
    "generate_n2_stream": BOTH,
    "generate_stop_string_stream": NEW,
    "generate_stream": BOTH,
    "generate_stream_continuous_usage": BOTH,
    "generate_stream_finish_stop_token": BOTH,
    "generate_stream_logprobs_usage": BOTH,
    "generate_trace_forced_stream": NEW,
    "scripted_generate_stream": NEW,
}
"""Streams, all of their events."""

ENDS = {"engine_death_inflight_stream": NEW, "generate_n2_stream": ("v0.20.2",), "generate_stream_aborted_by_id": NEW}
"""Streams recorded without logprobs, whose first event is refused: only their last two events, to see how they end."""

ERRORS = {
    "auth_bad": NEW,
    "auth_missing": NEW,
    "dp2_err_rank2": NEW,
    "engine_death_inflight": NEW,
    "err_404": BOTH,
    "err_bad_param_type": BOTH,
    "err_bad_param_value": BOTH,
    "err_empty_token_ids": BOTH,
    "err_invalid_json": BOTH,
    "err_len_equal_max": BOTH,
    "err_logprobs_too_many": BOTH,
    "err_max_tokens_0": BOTH,
    "err_method": BOTH,
    "err_missing_sampling_params": BOTH,
    "err_missing_token_ids": BOTH,
    "err_negative_token": BOTH,
    "err_oov_token": BOTH,
    "err_stop_no_detok": BOTH,
    "err_text_mode_no_detok": NEW,
    "err_too_long": BOTH,
    "err_unknown_model": BOTH,
    "err_wrong_content_type": BOTH,
    "generate_structured_bad_regex": BOTH,
    "generate_structured_two_kinds": NEW,
    "overload_503": NEW,
    "overload_503_stream": NEW,
    "scaleout_disabled_raw_body": NEW,
}
"""Answers with another status than 200."""


def payloads(raw: str) -> list[str]:
    """The data of each event of a stream."""
    return [line.removeprefix("data: ") for line in raw.splitlines() if line.startswith("data: ")]


def neutral(raw: str) -> str:
    """The text without the place where the recorded server was installed, which 0.20 puts into its errors."""
    return re.sub(r"/[\w./-]*/site-packages/", "/opt/vllm/lib/python3.11/site-packages/", raw)


def write(name: str, case: dict[str, object]) -> None:
    """Write one file, with the expectation that it already had."""
    path = OUT / f"{name}.json"
    expected = json.loads(path.read_text("utf-8"))["expected"] if path.exists() else None
    path.write_text(json.dumps(case | {"expected": expected}, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main(captures: Path) -> None:
    """Make every file."""
    for kind in (ANSWERS, STREAMS, ENDS, ERRORS):
        for name, versions in kind.items():
            for version in versions:
                source = f"{version}/{name}"
                capture = json.loads((captures / f"{source}.json").read_text("utf-8"))
                # The one file without a request and a response is the body of a 403.
                response = capture.get("response", {"status": 403, "raw": json.dumps(capture)})
                raw = neutral(response["raw"])
                case: dict[str, object] = {"source": source, "status": response["status"]}
                if kind is ERRORS:
                    write(f"{version}-{name}", case | {"body": raw})
                elif kind is ENDS:
                    end = payloads(raw)[-2:]
                    write(f"{version}-{name}-end", case | {"cut": "all but the last two events", "payloads": end})
                else:
                    write(f"{version}-{name}", case | {"payloads": [raw] if kind is ANSWERS else payloads(raw)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
