-- Named searches of tasks (views) and named commands of the fleet (templates), which the people of a project share.
CREATE TABLE holdfast_preset (
    project    text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('view', 'template')),
    name       text COLLATE "C" NOT NULL,
    body_json  text NOT NULL,
    changed_by text NOT NULL,
    changed_at double precision NOT NULL,
    version    bigint NOT NULL,
    PRIMARY KEY (kind, project, name)
);
