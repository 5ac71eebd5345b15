-- Named searches of tasks (views) and named commands of the fleet (templates), which the people of a project share.
CREATE TABLE holdfast_preset (
    project    text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('view', 'template')),
    name       text NOT NULL,
    body_json  text NOT NULL,
    changed_by text NOT NULL,
    changed_at real NOT NULL,
    version    integer NOT NULL,
    PRIMARY KEY (kind, project, name)
) STRICT, WITHOUT ROWID;
