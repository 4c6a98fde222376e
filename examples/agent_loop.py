"""An agent loop: recall, act, remember what came of it.

python examples/agent_loop.py
"""

import spector

TASKS = ["deploy shop", "deploy blog", "deploy shop"]


def act(task: str, advice: list[str]) -> tuple[bool, str]:
    """Stands for the model and its tools: it works if somebody said how."""
    if any("--wait" in text for text in advice):
        return True, f"{task}: worked with --wait"
    return False, f"{task}: failed with ERR_LOCKED, the lock goes away with --wait"


def main() -> None:
    with spector.SpectorMemory.ephemeral() as memory:
        for number, task in enumerate(TASKS):
            hits = memory.recall(task, k=3)
            worked, told = act(task, [hit.text for hit in hits])
            print(f"{task}: {len(hits)} memories, {'worked' if worked else 'failed'}")
            memory.remember(told, session=f"run {number}", tags=["deploy"], unresolved=not worked)


if __name__ == "__main__":
    main()
