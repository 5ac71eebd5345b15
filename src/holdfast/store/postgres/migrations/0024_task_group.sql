-- Task groups (core/group.py). A row of holdfast_member goes with its task, a group with its last member.
CREATE TABLE holdfast_task_group (
    id         text COLLATE "C" PRIMARY KEY,
    project    text NOT NULL,
    size       integer NOT NULL,
    created_at double precision NOT NULL
);
CREATE INDEX holdfast_task_group_created ON holdfast_task_group (created_at);
CREATE TABLE holdfast_member (
    group_id text COLLATE "C" NOT NULL,
    nth      integer NOT NULL,
    task_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (group_id, nth)
);
CREATE INDEX holdfast_member_task ON holdfast_member (task_id);
