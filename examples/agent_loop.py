"""An agent loop: recall, act, remember what came of it, and say what helped.

python examples/agent_loop.py
"""

import spector

TASKS = ["deploy shop", "deploy blog", "deploy shop", "deploy wiki"]


def act(task: str, advice: list[str]) -> tuple[bool, str]:
    """Stands for the model and its tools: it works if somebody said how."""
    if any("--wait" in text for text in advice):
        return True, f"{task}: worked with --wait"
    return False, f"{task}: failed with ERR_LOCKED, the lock goes away with --wait"


def main() -> None:
    with spector.SpectorMemory.ephemeral(seed=1) as memory:
        for number, task in enumerate(TASKS):
            # "auto" learns which profile fits this kind of question.
            hits = memory.recall(task, k=3, profile="auto")
            worked, told = act(task, [hit.text for hit in hits])
            for hit in hits:
                memory.reinforce(hit.id, positive=worked, recall=hits.token)
            memory.remember(told, session=f"run {number}", tags=["deploy"], unresolved=not worked)
            outcome = "worked" if worked else "failed"
            print(f"{task}: {len(hits)} memories by {hits.profile!r}, {outcome}")
        for known in memory.browse(tags=["deploy"]):
            print(known.recall_count, known.valence, known.text)


if __name__ == "__main__":
    main()
