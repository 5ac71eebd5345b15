-- Who has made or rotated the secret of a principal, and so may speak in its name.

CREATE TABLE holdfast_secret_holder (
    principal text NOT NULL,
    holder    text NOT NULL,
    PRIMARY KEY (principal, holder)
);
INSERT INTO holdfast_secret_holder (principal, holder)
SELECT DISTINCT principal, created_by FROM holdfast_token WHERE principal <> '' AND created_by <> '';
INSERT INTO holdfast_secret_holder (principal, holder)
SELECT DISTINCT 'webhook:' || name, created_by FROM holdfast_webhook WHERE direction = 'in';
