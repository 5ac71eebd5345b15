// A schedule in words. What has no words stays as it is.
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const SHORT = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const UNITS: Record<string, string> = { s: "second", m: "minute", h: "hour", d: "day" };
const NAMED: Record<string, string> = {
  "@hourly": "Every hour",
  "@daily": "Every day at 00:00",
  "@midnight": "Every day at 00:00",
  "@weekly": "Every Sunday at 00:00",
  "@monthly": "Day 1 of the month at 00:00",
  "@yearly": "1 January at 00:00",
};

const LIMITS: [number, number][] = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
];
/** Whether a field has no number that its unit does not have. */
const isWithin = (field: string, at: number): boolean =>
  (field.replace(/\/\d+/g, "").match(/\d+/g) ?? []).every(
    (n) => Number(n) >= (LIMITS[at]?.[0] ?? 0) && Number(n) <= (LIMITS[at]?.[1] ?? 0),
  );

export function sentence(spec: string): string {
  if (NAMED[spec]) return NAMED[spec];
  const every = /^@every (\d+)\s*([smhd])$/.exec(spec);
  if (every)
    return `Every ${every[1] === "1" ? "" : `${every[1]} `}${UNITS[every[2] ?? ""]}${every[1] === "1" ? "" : "s"}`;
  const fields = spec.split(/\s+/);
  if (fields.length !== 5 || fields.some((field, at) => !isWithin(field, at))) return spec;
  const [minute = "", hour = "", day = "", month = "", week = ""] = fields;
  const step = /^\*\/(\d+)$/;
  const two = (text: string) => text.padStart(2, "0");
  if (hour === "*" && day === "*" && month === "*" && week === "*") {
    if (minute === "*") return "Every minute";
    const by = step.exec(minute);
    if (by) return `Every ${by[1]} minutes`;
    if (/^\d+$/.test(minute)) return `Every hour, minute ${minute}`;
  }
  const everyHours = step.exec(hour);
  if (everyHours && /^\d+$/.test(minute) && day === "*" && month === "*" && week === "*")
    return `Every ${everyHours[1]} hours${minute === "0" ? "" : `, minute ${minute}`}`;
  if (!/^\d+$/.test(minute) || !/^\d+$/.test(hour)) return spec;
  const at = `${two(hour)}:${two(minute)}`;
  if (day === "*" && month === "*") {
    if (week === "*") return `Every day at ${at}`;
    if (/^\d$/.test(week)) return `Every ${DAYS[Number(week)]} at ${at}`;
    const range = /^(\d)-(\d)$/.exec(week);
    if (range) return `${SHORT[Number(range[1])]} to ${SHORT[Number(range[2])]} at ${at}`;
  }
  if (/^\d+$/.test(day) && month === "*" && week === "*") return `Day ${day} of the month at ${at}`;
  return spec;
}
