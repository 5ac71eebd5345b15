-- Refusals of workers' messages: the answer to a message that comes again. A row commits with its receiver, and is
-- kept while the worker may not have the acknowledgement: the window of messages before the last one.

CREATE TABLE holdfast_refused_message (
    node         text COLLATE "C" NOT NULL,
    incarnation  bigint NOT NULL,
    sequence     bigint NOT NULL,
    refused_json text NOT NULL,
    PRIMARY KEY (node, incarnation, sequence)
);
