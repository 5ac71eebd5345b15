-- Makes the fence a key column: a statement that changes it waits for every `FOR KEY SHARE` on the row, as a
-- change of what a foreign key refers to does. A renewal changes no key and does not wait. No query uses the index.
CREATE UNIQUE INDEX holdfast_lease_fence ON holdfast_lease (fence, resource);
