"""An enqueue that commits with the caller's own rows, or not at all: python examples/outbox.py"""

import asyncio

import apsw

from holdfast import TaskQueue

FILE = "holdfast.db"
queue = TaskQueue(f"sqlite:///{FILE}")


@queue.task
async def welcome(user: str) -> str:
    return f"welcome, {user}"


async def register(connection: apsw.Connection, user: str) -> str | None:
    """The user's row and the task: both, or (for a name that is taken) neither."""
    try:
        with connection:  # one transaction
            connection.execute("INSERT INTO user VALUES (?)", (user,))
            return await welcome.options(tx=connection).enqueue(user)
    except apsw.ConstraintError:
        return None


async def main() -> None:
    # apsw, like the queue: a second copy of SQLite in one process would not see its locks.
    connection = apsw.Connection(FILE)
    connection.set_busy_timeout(5_000)  # the queue writes to the file, too
    connection.execute("CREATE TABLE IF NOT EXISTS user (name text PRIMARY KEY)")
    connection.execute("DELETE FROM user")
    async with queue:
        for user in ("ada", "grace", "ada"):
            task = await register(connection, user)
            print(f"{user}: {'enqueued' if task else 'name is taken, nothing enqueued'}")
        print(len(await queue.find_tasks(type="welcome")), "tasks for two users")
    connection.close()


if __name__ == "__main__":
    asyncio.run(main())
