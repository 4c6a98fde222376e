"""A chat that remembers: what was said in earlier sessions comes back when it matters.

python examples/chat_memory.py [FOLDER]
"""

import sys
import tempfile

import spector

SESSIONS = {
    "2031-03-02": [
        ("Ann", "I moved to Lisbon last week, the flat is in Alfama."),
        ("bot", "How do you like it?"),
        ("Ann", "The stairs are steep, but the view is worth it."),
    ],
    "2031-03-09": [
        ("Ann", "My sister Carla visits in May. She is a vegetarian."),
        ("bot", "Shall I look for restaurants?"),
        ("Ann", "Yes, something with fado music."),
    ],
}


def listen(memory: spector.SpectorMemory, session: str, speaker: str, said: str) -> None:
    """Keep one turn: the session links it to its neighbours, the author makes it findable."""
    memory.remember(
        said,
        session=session,
        author=speaker,
        context=f"{speaker}, {session}",  # searched like the text
        timestamp=session,
        type="episodic",
    )


def prompt(memory: spector.SpectorMemory, question: str) -> str:
    """What a model would get to read before it answers."""
    hits = memory.recall(question, k=4)
    return "\n".join(f"- ({hit.context}) {hit.text}" for hit in hits)


def main(folder: str) -> None:
    with spector.SpectorMemory.open(folder) as memory:
        for session, turns in SESSIONS.items():
            for speaker, said in turns:
                listen(memory, session, speaker, said)
    with spector.SpectorMemory.open(folder) as memory:  # weeks later
        for question in ["Where did Ann move?", "What should Carla eat?"]:
            print(question)
            print(prompt(memory, question))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as place:
            main(place)
