// Nodes: all of them, and one alone.
export { Nodes } from "./list";
export { Node } from "./node";
