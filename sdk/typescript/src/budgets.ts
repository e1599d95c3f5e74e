import type { Caller } from "./caller.js";
import {
  Budgets as BudgetsService,
  type Budget as WireBudget,
  type BudgetAccount as WireBudgetAccount,
  type BudgetChange as WireBudgetChange,
  type BudgetState as WireBudgetState,
} from "./gen/rota/v1/rota_pb.js";
import { newId } from "./ids.js";
import type { CallOptions, ChangeOptions, ReadOptions } from "./options.js";
import { one, read, rows, type ListOptions } from "./reads.js";
import { plain, type Init, type Plain } from "./wire.js";

export type Budget = Plain<WireBudget>;
export type BudgetState = Plain<WireBudgetState>;
export type BudgetAccount = Plain<WireBudgetAccount>;
export type BudgetChange = Plain<WireBudgetChange>;

/** What jobs may spend of a cost in a period: `client.budgets`. Amounts are in units of the cost. */
export class Budgets {
  constructor(private readonly caller: Caller) {}

  /**
   * Sets a budget, replacing the one of the same name, and returns it. What was spent stays, unless the budget is then
   * about other jobs or another unit. Open attempts count at once. A budget with an `etag`, as `get` returns it,
   * replaces only that version.
   */
  async set(budget: Init<WireBudget>, opts: ChangeOptions = {}): Promise<BudgetState> {
    const { ifMatch = "", ...rest } = opts;
    return plain((await one(this.caller, "set budget", BudgetsService.method.set, { budget, ifMatch }, rest)).budget!);
  }

  /** Deletes a budget and what was spent of it; a missing budget is not an error. */
  async delete(name: string, opts: ChangeOptions = {}): Promise<void> {
    const { ifMatch = "", ...rest } = opts;
    await one(this.caller, "delete budget", BudgetsService.method.delete, { name, ifMatch }, rest);
  }

  /** Lists the budgets by name, with the sums of their accounts; `asking` selects those with an open question. */
  list(opts: ListOptions & { asking?: boolean } = {}): AsyncGenerator<BudgetState, void, undefined> {
    const { asking = false, ...rest } = opts;
    return rows<WireBudgetState>(this.caller, "list budgets", BudgetsService.method.list, "budgets", rest, { asking });
  }

  /** Reads one budget, with the sums of its accounts. */
  async get(name: string, opts?: ReadOptions): Promise<BudgetState> {
    return plain((await read(this.caller, "show budget", BudgetsService.method.get, { name }, opts)).budget!);
  }

  /**
   * Lists the accounts of a budget by what they belong to. `of` selects the account of one tenant, key, workflow or
   * job; `held` selects those that hold jobs back, `asking` the open questions.
   */
  accounts(
    name: string,
    opts: ListOptions & { of?: string; held?: boolean; asking?: boolean } = {},
  ): AsyncGenerator<BudgetAccount, void, undefined> {
    const { of = "", held = false, asking = false, ...rest } = opts;
    return rows<WireBudgetAccount>(this.caller, "list budget accounts", BudgetsService.method.accounts, "accounts", rest, { name, of, held, asking });
  }

  /**
   * Adds an amount to the limit of an account for the present period, and returns the account. `of` is the tenant, key,
   * workflow or job of the account; leave it out if the budget has one account. The same id again is the same grant.
   */
  async grant(name: string, amount: number, opts: CallOptions & { of?: string; reason?: string; id?: string } = {}): Promise<BudgetAccount> {
    const { of = "", reason = "", id, ...rest } = opts;
    const init = { name, of, amount, reason, id: id || newId() };
    return plain((await one(this.caller, "grant budget", BudgetsService.method.grant, init, rest)).account!);
  }

  /**
   * Forgets what was spent and granted in the present period, of one account or, with `all`, of all accounts of the
   * budget; see `grant` about `of` and the id.
   */
  async reset(name: string, opts: CallOptions & { of?: string; all?: boolean; reason?: string; id?: string } = {}): Promise<void> {
    const { of = "", all = false, reason = "", id, ...rest } = opts;
    await one(this.caller, "reset budget", BudgetsService.method.reset, { name, of, all, reason, id: id || newId() }, rest);
  }
}
