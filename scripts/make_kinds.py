"""Make `src/arr_coc/knowing/photos/kinds.json`: nouns that are kinds of a thing the detector knows, from WordNet.

    python scripts/make_kinds.py /usr/share/wordnet          # Debian's package wordnet-base

A noun counts where its commonest sense is a kind of the thing.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

from arr_coc.knowing.photos.things import thesaurus, vocabulary

from arr_coc.core.files import write_text

OUT = Path(__file__).parents[1] / "src" / "arr_coc" / "relevance" / "photos" / "kinds.json"
# The thing's sense in WordNet, where it is not the first of its name.
SENSES = {
    "person": "person", "mouse": "mouse%4", "bear": "bear", "cow": "cattle", "airplane": "airplane", "couch": "sofa",
    "tv": "television_receiver", "cell phone": "cellular_telephone", "potted plant": "flower%1", "kite": "kite%4",
    "sports ball": "ball", "orange": "citrus", "remote": "remote_control", "hair drier": "hand_blower",
    "wine glass": "wineglass", "stop sign": "", "skis": "ski", "oven": "stove%1", "teddy bear": "teddy",
    "dining table": "table%2", "tennis racket": "tennis_racket", "train": "train", "boat": "vessel%2",
    "traffic light": "traffic_light", "cake": "cake%3", "book": "book", "handbag": "bag%4", "sheep": "sheep",
    "horse": "horse", "bird": "bird", "frisbee": "", "tie": "necktie", "truck": "truck", "cup": "cup",
    "refrigerator": "refrigerator", "baseball glove": "baseball_glove", "hot dog": "hotdog%3", "donut": "doughnut",
    "apple": "apple", "chair": "seat%3", "clock": "timepiece", "bowl": "bowl", "bottle": "bottle", "car": "car",
    "bus": "bus", "knife": "knife", "suitcase": "bag%6", "toilet": "toilet%2",
}  # fmt: skip


def _lines(path: Path) -> list[str]:
    """Without the licence, whose lines begin with a space."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(" ")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wordnet", type=Path)
    folder = parser.parse_args().wordnet
    children: dict[str, list[str]] = defaultdict(list)
    for line in _lines(folder / "data.noun"):
        for above in re.findall(r"@i? (\d{8}) n", line):
            children[above].append(line[:8])
    senses: dict[str, tuple[list[str], int]] = {}
    for line in _lines(folder / "index.noun"):
        cells = line.split()
        number = int(cells[2])
        senses[cells[0]] = cells[-number:], int(cells[-number - 1])
    # What is also an adjective or a verb mostly is one in a question: electric, delicious, settle.
    other = {line.split(" ")[0] for kind in ("adj", "adv", "verb") for line in _lines(folder / f"index.{kind}")}
    known = vocabulary().keys()
    table: dict[str, list[str]] = {}
    for name in thesaurus().names:
        lemma, _, sense = SENSES.get(name, name.replace(" ", "_")).partition("%")
        if lemma not in senses:
            continue
        inside, waiting = set(), [senses[lemma][0][int(sense or 1) - 1]]
        while waiting:
            one = waiting.pop()
            if one not in inside:
                inside.add(one)
                waiting += children[one]
        words = []
        for word, (meanings, counted) in senses.items():
            plain = word.replace("_", "-")
            # Roles are without number: only those that a text was counted to use.
            one = meanings[0] in inside and word not in other and (name != "person" or counted)
            if one and plain not in known and re.fullmatch(r"[a-z]+(-[a-z]+){0,2}", plain) and len(plain) > 2:
                words.append(plain)
        table[name] = sorted(words)
    taken: set[str] = set()
    for name, words in sorted(table.items(), key=lambda pair: len(pair[1])):
        table[name] = [word for word in words if word not in taken]
        taken |= set(words)
    OUT.parent.mkdir(exist_ok=True)
    kept = {name: " ".join(words) for name, words in table.items() if words}
    write_text(OUT, json.dumps(kept, indent=0) + "\n")
    print(f"{len(taken)} words, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
