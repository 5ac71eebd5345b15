// Acts on tasks: one dialog for one task or for many. It shows what would happen first.
export { ActDialog } from "./dialog";
export { ReasonField, Refused } from "./foot";
export { KINDS, verbsOf, type Verb } from "./kinds";
export { act } from "./open";
