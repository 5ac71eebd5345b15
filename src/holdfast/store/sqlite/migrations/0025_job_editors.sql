-- Who has edited a job: those who hold secrets of theirs do not vote on it either. Of older jobs it is not known.
ALTER TABLE holdfast_job ADD COLUMN editors_json text NOT NULL DEFAULT '[]';
