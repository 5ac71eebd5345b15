// Hosts of the fleet, their groups and blocks.
export { Blocks } from "./blocks";
export { Groups } from "./groups";
export { Host } from "./host";
export { Hosts } from "./list";
