// Errors: one class for each code of the API, one for a server that cannot be reached, and one
// for a command that failed where it was to be checked.

import type { Schemas, Stream } from "./types.ts";
import type { ExecResult } from "./result.ts";
import { fromWire } from "./wire.ts";

/** Facts beside an error's message. */
export type ErrorDetails = Schemas["ErrorDetails"];
/** Whether a request that failed changed anything. */
export type TookEffect = Schemas["TookEffect"];
/** Whether to ask again. */
export type Retry = Schemas["Retry"];
/** The codes of the API, and those of the SDK's own errors. */
export type ErrorCode = Schemas["ErrorCode"] | "connection" | "command_failed" | "still_running" | "output_dropped";

interface Facts {
  /** What kind of error it is; a newer server may say one that is not listed. */
  code: ErrorCode;
  message: string;
  tookEffect: TookEffect;
  retry: Retry;
  nextStep: string;
  details?: ErrorDetails | undefined;
}

/** Every error of this SDK. */
export class AtollError extends Error {
  /** What kind of error it is. */
  readonly code: ErrorCode;
  /** Whether anything changed. */
  readonly tookEffect: TookEffect;
  /** Whether to ask again. */
  readonly retry: Retry;
  /** What to do now, in words that an agent can act on. */
  readonly nextStep: string;
  /** Facts for programs. */
  readonly details: ErrorDetails;

  constructor(facts: Facts, options?: ErrorOptions) {
    super(facts.message, options);
    this.name = new.target.name;
    this.code = facts.code;
    this.tookEffect = facts.tookEffect;
    this.retry = facts.retry;
    this.nextStep = facts.nextStep;
    this.details = facts.details ?? {};
  }
}

/** There is nothing of that id or name. */
export class NotFoundError extends AtollError {}
/** It is there, but in a state in which this cannot be done. */
export class WrongStateError extends AtollError {}
/** A limit of the host or of the account is used up. */
export class CapacityError extends AtollError {}
/** It will be there, but is not yet. */
export class NotReadyError extends AtollError {}
/** It did not come to be in the time that the request gives it. */
export class TimedOutError extends AtollError {}
/** Nothing answers behind a preview; `details.listening` says what would. */
export class UnreachableError extends AtollError {}
/** A policy forbids it. */
export class RefusedByPolicyError extends AtollError {}
/** It has to be approved by a person, and was not; nothing was run. */
export class NotApprovedError extends RefusedByPolicyError {
  /** The approval that it is about, for `approvals.get`. */
  get approvalId(): string {
    return this.details.approvalId ?? "";
  }
}
/** Nobody has decided yet: the same may be asked for again. */
export class ApprovalPendingError extends NotApprovedError {}
/** Somebody denied it; the message says why, if they did. */
export class ApprovalDeniedError extends NotApprovedError {}
/** Nobody decided in time; asked for again it is another approval. */
export class ApprovalExpiredError extends NotApprovedError {}
/** The sandbox's tier cannot do it. */
export class UnsupportedByTierError extends AtollError {}
/** The outcome is unknown, because whoever knew it is gone. */
export class LostError extends AtollError {}
/** The request itself is wrong. */
export class InvalidError extends AtollError {}
/** The request is larger than is taken. */
export class TooLargeError extends AtollError {}
/** There is something at that path, but not for this method. */
export class MethodNotAllowedError extends AtollError {}
/** Nobody is known by the key that came with the request, or none came. */
export class UnauthenticatedError extends AtollError {}
/** The caller is known and may not. */
export class ForbiddenError extends AtollError {}
/** It contradicts something that is there. */
export class ConflictError extends AtollError {}
/** A fault of the server or of its host. */
export class InternalError extends AtollError {}

/** The class of each code. */
const CLASSES: Record<Schemas["ErrorCode"], new (facts: Facts) => AtollError> = {
  not_found: NotFoundError,
  wrong_state: WrongStateError,
  capacity: CapacityError,
  not_ready: NotReadyError,
  timed_out: TimedOutError,
  refused_by_policy: RefusedByPolicyError,
  unsupported_by_tier: UnsupportedByTierError,
  lost: LostError,
  invalid: InvalidError,
  too_large: TooLargeError,
  method_not_allowed: MethodNotAllowedError,
  unauthenticated: UnauthenticatedError,
  forbidden: ForbiddenError,
  conflict: ConflictError,
  unreachable: UnreachableError,
  internal: InternalError,
};

/** The class of each `details.reason` for which a caller has something else to do than for its code. */
const REASONS: Record<string, new (facts: Facts) => NotApprovedError> = {
  "approval-pending": ApprovalPendingError,
  "approval-denied": ApprovalDeniedError,
  "approval-expired": ApprovalExpiredError,
};

/** How a connection failed: nothing was sent, it broke off, or nothing came for too long. */
export type ConnectionFault = "unreachable" | "broken" | "silent";

/** The server cannot be reached, or was and is not any more. */
export class ConnectionError extends AtollError {
  readonly kind: ConnectionFault;

  constructor(kind: ConnectionFault, message: string, nextStep: string, options?: ErrorOptions) {
    const isUnsent = kind === "unreachable";
    const tookEffect = isUnsent ? "no" : "unknown";
    const retry: Retry = { kind: isUnsent ? "safe" : "unsafe" };
    super({ code: "connection", message, tookEffect, retry, nextStep }, options);
    this.kind = kind;
  }
}

/** A command that was to be checked did not exit with 0. */
export class CommandFailedError extends AtollError {
  /** How it ended and what it printed. */
  readonly result: ExecResult;

  constructor(result: ExecResult) {
    super({
      code: "command_failed",
      message: ["the command " + result.ending(), ...lastLine(result.stderr)].join(": "),
      tookEffect: "yes",
      retry: { kind: "unsafe" },
      nextStep: "look at what it printed: result.stdout and result.stderr",
    });
    this.result = result;
  }
}

function lastLine(text: string): string[] {
  return text
    .trim()
    .split("\n")
    .slice(-1)
    .filter((line) => line !== "");
}

/** A wait was over before the command was; it goes on. */
export class StillRunningError extends AtollError {
  constructor(id: string) {
    super({
      code: "still_running",
      message: `${id} runs longer than was waited for`,
      tookEffect: "yes",
      retry: { kind: "safe" },
      nextStep: "wait again, or cancel it",
    });
  }
}

/** Output is not kept any more from one offset to another, so what follows is not the whole of it. */
export class OutputDroppedError extends AtollError {
  readonly from: number;
  readonly to: number;

  constructor(stream: Stream, from: number, to: number, options?: ErrorOptions) {
    const facts = {
      code: "output_dropped",
      message: `bytes ${from} to ${to} of ${stream} are not kept any more`,
      tookEffect: "no",
      retry: { kind: "safe" },
      nextStep: `read on from offset ${to}, or keep more with keepBytes`,
    } as const;
    super(facts, options);
    this.from = from;
    this.to = to;
  }
}

/** The error that an `ApiError` of the wire stands for. */
export function apiError(facts: Schemas["ApiError"]): AtollError {
  const reason = facts.details?.reason ?? "";
  if (facts.code === "refused_by_policy" && Object.hasOwn(REASONS, reason)) return new REASONS[reason]!(facts);
  const known = Object.hasOwn(CLASSES, facts.code) ? CLASSES[facts.code] : AtollError;
  return new known(facts);
}

/** The error that the body of an answer says; of one that is not the API's, what its status says. */
export function errorOf(status: number, body: string): AtollError {
  try {
    const { error } = fromWire(JSON.parse(body)) as { error: Schemas["ApiError"] };
    if (typeof error.code === "string" && typeof error.message === "string") return apiError(error);
  } catch {
    // Somebody between us and the server answered; told below.
  }
  return new InternalError({
    code: "internal",
    message: `the answer has status ${status} and is not one of Atoll's: ${body.slice(0, 200)}`,
    tookEffect: "unknown",
    retry: { kind: "unsafe" },
    nextStep: "check that the address is that of an Atoll server, and what is between",
  });
}
