-- Nodes that run tasks: a fleet has many agents, which are nodes too.
CREATE INDEX holdfast_node_runner ON holdfast_node (id) WHERE kind <> 'agent';
