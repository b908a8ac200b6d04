"""An answer in pieces: the same text, the same uncertainty, and nothing said that must be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_weights import needs_weights, signs, spoken

import arr_coc
from arr_coc import Eye, InputError
from arr_coc.answering.decoding import Spelling

END = 0
STREET = Path(arr_coc.__file__).parent / "examples" / "street.png"


class Letters:
    """A tokenizer of bytes; 0 ends."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return bytes(one for one in ids if one != END).decode("utf-8", errors="replace")


@example("a a", [" ", "a a"])
@given(st.text(alphabet="ab é\n€", max_size=24), st.lists(st.text(alphabet="ab ", min_size=1, max_size=3), max_size=2))
def test_pieces_are_the_whole_answer_before_the_first_stop(text: str, stop: list[str]) -> None:
    spelling, said = Spelling(Letters(), [END], stop), ""
    for token in [*text.encode(), END]:
        said += spelling.add(token)
        if spelling.ended:
            break
    said += spelling.rest()
    # The stop that is whole first ends the answer, though a longer one that begins earlier was under way.
    trimmed = text.lstrip()
    heard = trimmed[: min((trimmed.find(one) + len(one) for one in stop if one in trimmed), default=len(trimmed))]
    cuts = [heard.find(one) for one in stop if one in heard]
    assert said == spelling.text == heard[: min(cuts, default=len(heard))].rstrip()
    assert spelling.ended


@needs_weights
def test_a_streamed_answer_is_the_asked_one() -> None:
    eye = Eye.from_pretrained("mini").set_image(signs())
    wanted = eye.ask("What does the pink sign say?", budget=48)
    pieces, answer = spoken(eye.stream("What does the pink sign say?", budget=48))
    assert len(pieces) > 1
    assert "".join(pieces) == answer.text == wanted.text
    assert answer.allocation == wanted.allocation
    assert (answer.tokens, answer.full, answer.notes) == (wanted.tokens, wanted.full, wanted.notes)
    assert answer.uncertainty == pytest.approx(wanted.uncertainty, abs=1e-5)
    assert set(answer.seconds) == set(wanted.seconds)
    with pytest.raises(InputError):  # before anything is spoken
        eye.stream("What does the pink sign say?", budget=0)
