"""The rollout of a job: policy, state, the reducer, and what people do to it."""
