import { invalid, RotaError } from "./errors.js";

/** amountMost is the greatest amount of a cost in units, costsMost the maximum number of costs of a job. */
const amountMost = 1_000_000_000_000;
const costsMost = 8;

/** A number of units in millionths; undefined if it has more than six fraction digits. */
function exact(units: number): bigint | undefined {
  const parts = /^(-?\d+)(?:\.(\d{1,6}))?$/.exec(String(units)); // its shortest digits
  return parts ? BigInt(parts[1]! + (parts[2] ?? "").padEnd(6, "0")) : undefined;
}

/** An amount of a cost in millionths of a unit; `name` is that of the cost. */
export function toMillionths(field: string, units: unknown, name = ""): bigint {
  const wrong = (hint: string): RotaError => invalid(field, `${field}: got ${name ? `${name}=` : ""}${String(units)}; use ${hint}`);
  if (typeof units !== "number" || !(units >= 0 && units <= amountMost)) throw wrong(`a number from 0 to ${amountMost}`);
  const amount = exact(units);
  if (amount === undefined) throw wrong("at most six digits after the point");
  return amount;
}

/** An amount in units. One that a number does not hold exactly is an error: it would have another value. */
export function fromMillionths(amount: bigint, path: string): number {
  const digits = String(amount < 0n ? -amount : amount).padStart(7, "0");
  const text = `${amount < 0n ? "-" : ""}${digits.slice(0, -6)}.${digits.slice(-6)}`;
  const units = Number(text);
  if (exact(units) === amount) return units;
  throw new RotaError("OUT_OF_RANGE", `${path} is ${text}, which a number does not hold exactly`, { field: path });
}

/** The totals of an attempt in millionths: they only grow. */
export class Spending {
  #totals: ReadonlyMap<string, bigint> = new Map();

  /** Replaces a total. One that the cluster would refuse, with the verb that has it, throws and changes nothing. */
  add(name: string, units: number): Record<string, bigint> {
    const rounded = Math.abs(units) < amountMost ? Number(units.toFixed(6)) : units;
    const total = toMillionths("costs", rounded, name);
    const before = this.#totals.get(name) ?? 0n;
    if (total < before) {
      throw invalid("costs", `costs: got ${name}=${units} after ${fromMillionths(before, "costs")}; report the total of the attempt, which only grows`);
    }
    if (!/^[!-~]{1,128}$/.test(name) || /[:=,]/.test(name)) {
      throw invalid("costs", `costs: got the name ${JSON.stringify(name.slice(0, 80))}; use 1 to 128 bytes of printable ASCII without blanks, colons, commas and equals signs`);
    }
    const totals = new Map(this.#totals).set(name, total);
    if (totals.size > costsMost) throw invalid("costs", `too many costs: got ${totals.size}, maximum ${costsMost}`);
    this.#totals = totals;
    return Object.fromEntries(totals);
  }

  /** The totals in units. */
  get totals(): Record<string, number> {
    return Object.fromEntries([...this.#totals].map(([name, total]) => [name, fromMillionths(total, "costs")]));
  }
}
