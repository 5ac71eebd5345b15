-- Who may not vote on a job, whichever request asks. Of older jobs: the requester, and those of its request.
ALTER TABLE holdfast_job ADD COLUMN excluded_voters_json text NOT NULL DEFAULT '[]';
