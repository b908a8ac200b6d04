"""How people ask: many wordings for one fact, then typos, other case, a missing question mark."""

from __future__ import annotations

import random
import string

FIELD = (
    *("What is written for {L}?",) * 3,
    *("What is the {l}?",) * 3,
    *("{L}",) * 3,
    *("{l}", "{L}:", "{l}?", "What's the {l}?", "Which {l} is given?", "What {l} is given?", "What {l} is mentioned?"),
    *("Find the {l}.", "Read the {l}", "Where is the {l}?", "Look up the {l}.", "Show me the {l}", "Tell me the {l}."),
    *(
        "What does it say for {L}?",
        "What does the page say for {l}?",
        "What is entered under {L}?",
        "What is the {l} given?",
    ),
    *("What stands next to {L}?", "What has been filled in for {L}?", "What is mentioned for {L}?", "the {l} please"),
    *(
        "Can you read the {l}?",
        "Please give the {l}.",
        "What is the {l} mentioned in the document?",
        "{l} on this page",
    ),
    *("What is stated as the {l}?", 'What is the value of "{L}"?', "What is the {l} in the form?", "Give me the {l}"),
    *("What is the content of the field {L}?", "What is listed as {l}?", "what did they put for {l}"),
)
BY_KIND = {
    "name": ("Who is the {l}?", "Who is named as {l}?", "Whose name is written for {L}?", "Who is given as {l}?"),
    "company": ("Which company is the {l}?", "Who is the {l}?", "Which firm is written for {L}?"),
    "date": ("When is the {l}?", "What date is given for {L}?", "On which day is the {l}?", "When was it? ({l})"),
    "time": ("When is the {l}?", "At what time is the {l}?"),
    "money": (
        "How much is the {l}?",
        "What amount is given for {L}?",
        "How much is written for {L}?",
        "what did the {l} come to",
    ),
    "code": ("Which number is the {l}?", "What is the {l} on the document?"),
    "phone": ("Which number is the {l}?", "What number is written for {L}?"),
    "int": ("How many are given for {L}?", "What number is given for {L}?", "How much is the {l}?"),
    "measure": ("How much is the {l}?", "What is the {l} with its unit?"),
    "percent": ("How high is the {l}?", "What percentage is the {l}?"),
    "city": ("Which place is the {l}?", "Where? ({l})"),
    "street": ("Where is it? ({l})", "Which address is the {l}?"),
}
TITLE = (
    *("What is the title?", "What is the title of the page?", "What is the title of this document?", "title", "Title?"),
    *(
        "What is the heading?",
        "What is this page about?",
        "What is the document called?",
        "Read the title.",
        "What does the headline say?",
    ),
)
CHART_TITLE = (
    "What is the title of the chart?",
    "What is the chart about?",
    "What does this graph show?",
    "chart title",
    "What is the title?",
    "What is the heading of the figure?",
)
PRICE = (
    *(
        "How much is the {i}?",
        "What is the price of {I}?",
        "What does the {i} cost?",
        "{I} price",
        "price of {i}",
        "How much does {I} cost?",
    ),
    *(
        "How much was paid for {i}?",
        "What is the amount for {I}?",
        "{I}",
        "what did they charge for {i}",
        "How expensive is the {i}?",
    ),
)
COUNT_OF = (
    "How many {i} were bought?",
    "What is the quantity of {I}?",
    "{I} quantity",
    "How many {i}?",
    "quantity for {i}",
)
CELL = (
    *(
        "What is the {c} of {r}?",
        "What is the {c} for {r}?",
        "{r}, {c}",
        "{c} of {r}",
        "What does the table give as {c} for {r}?",
    ),
    *(
        "What is the value for {r} in the column {c}?",
        "How much is the {c} of {r}?",
        "{r} {c}?",
        "Find the {c} in the row {r}.",
    ),
    *("What was the {c} for {r}?", "Which {c} does {r} have?", "Read {c} for {r}."),
)
ROW_OF = (
    "Which {k} has a {c} of {v}?",
    "Which {k} shows {v} under {c}?",
    "Whose {c} is {v}?",
    "In which row is the {c} {v}?",
)
CLICK = (
    *(
        "Click on {L}.",
        "Click on {L}",
        "Click the {L} button.",
        "Where is {L}?",
        "Open {L}.",
        "Select '{L}'.",
        "Press {L}",
        "Go to {l}",
    ),
    *(
        "Tap {L}",
        "click {l}",
        "Choose {L}.",
        "Where do I find {l}?",
        "Activate the {l} item",
        "{L}",
        "Use the {l} command",
        "Hit {L}.",
    ),
)
POINT = ("Where is {L}?", "Find {L}.", "Show me {L}", "{L}", "Where does it say {L}?", "Point at {L}.")
VALUE = (
    *(
        "What was the {m} in {x}?",
        "What is the {m} in {x}?",
        "How much was the {m} in {x}?",
        "What was the {m} for {x}?",
    ),
    *(
        "What is the value of {x}?",
        "What is the value for {x}?",
        "What was the value in {x}?",
        "{x}",
        "value of {x}",
        "What figure is shown for {x}?",
    ),
    *(
        "What is shown for {x}?",
        "How high is {x}?",
        "What number belongs to {x}?",
        "{m} {x}",
        "Read the value of {x}.",
        "How much is {x}?",
    ),
)
VALUE_OF = (
    *(
        "What was the {m} of {s} in {x}?",
        "What is the value of {s} in {x}?",
        "What was the value of {s} in {x}?",
        "How much is {s} for {x}?",
    ),
    *(
        "{s}, {x}",
        "{x} {s}",
        "What is shown for {s} in {x}?",
        "What was the {m} for {s} in {x}?",
        "value of {s} for {x}",
        "How high is {s} in {x}?",
    ),
    *("What percentage or number is given for {s}, {x}?", "Read {s} at {x}.", "What figure does {s} have in {x}?"),
)
# By the first words of what a chart measures; {o} is the rest: "number of schools" asks how many schools.
VALUE_BY = {
    "number of ": ("How many {o} were there in {x}?", "How many {o} did {x} have?", "How many {o} are shown for {x}?"),
    "total number of ": ("How many {o} were there in total in {x}?", "How many {o} does {x} count?"),
    "share of ": ("What percentage of {o} in {x}?", "What share of {o} is given for {x}?", "How many percent in {x}?"),
    "percentage of ": ("What percentage of {o} did {x} have?", "How many percent of {o} in {x}?"),
    "revenue from ": ("How much revenue did {o} bring in {x}?", "How much was earned with {o} in {x}?"),
    "consumption of ": ("How much {o} was consumed in {x}?",),
    "production of ": ("How much {o} was produced in {x}?", "How much {o} did {x} produce?"),
    "average price of ": ("What did {o} cost in {x}?", "How much was paid for {o} in {x}?"),
    "market share of ": ("What is the market share of {o} in {x}?", "How large a share does {x} have?"),
}
HIGHEST_OF = (
    "Which {k} has the highest {s}?",
    "Where is {s} highest?",
    "Which {k} leads in {s}?",
    "{k} with the most {s}",
)
ENTRIES = (
    "How many entries does the chart have?",
    "How many {k} values are on the axis?",
    "Count the labels of the axis.",
)
HIGHEST = (
    "Which {k} has the highest value?",
    "Which {k} had the highest {m}?",
    "What {k} has the largest {m}?",
    "Which {k} leads?",
    "Which {k} has the tallest bar?",
    "{k} with the highest {m}",
    "Which {k} comes first in {m}?",
)
LOWEST = (
    "Which {k} has the lowest value?",
    "Which {k} had the lowest {m}?",
    "What {k} has the smallest {m}?",
    "Which {k} is last?",
    "{k} with the lowest {m}",
)
PEAK = (
    "What is the highest value?",
    "What is the highest {m}?",
    "What is the maximum?",
    "How high is the largest value shown?",
    "What was the peak {m}?",
)
BOTTOM = (
    "What is the lowest value?",
    "What is the lowest {m}?",
    "What is the minimum?",
    "What is the smallest value shown?",
)
WHERE_VALUE = (
    "Which {k} has a value of {v}?",
    "In which {k} was the {m} {v}?",
    "Which {k} has {v}?",
    "For which {k} is {v} shown?",
    "What {k} had a {m} of {v}?",
)
SOURCE = (
    "What is the source?",
    "Where does the data come from?",
    "source",
    "Who published this?",
    "Which source is named?",
)
LETTERS = set(string.printable[:95]) | {"€"}


def lowered(text: str) -> str:
    """Lower case as inside a sentence; abbreviations and codes keep their capitals."""
    return " ".join(word if word.isupper() and len(word) < 5 else word.lower() for word in text.split())


def roughened(text: str, source: random.Random) -> str:
    """As typed in a hurry, now and then: other case, no question mark, one typo."""
    pick = source.random()
    if pick < 0.05:
        text = text.lower()
    elif pick < 0.07:
        text = text.upper()
    elif pick < 0.12:
        text = text.rstrip("?.")
    elif pick < 0.17 and len(text) > 12:
        at = source.randrange(3, len(text) - 3)
        kind = source.randrange(4)
        letter = source.choice(string.ascii_lowercase)
        if text[at].isalpha():
            swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
            text = (
                text[:at] + text[at + 1 :],
                text[:at] + letter + text[at + 1 :],
                swapped,
                text[:at] + text[at] + text[at:],
            )[kind]
    return text


def readable(text: str) -> bool:
    """Whether every character is in the scorer's alphabet, ASCII and €."""
    return set(text) <= LETTERS
