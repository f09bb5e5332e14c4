// Sandboxes for AI agents, on your own machines.

export {
  Atoll,
  Keys,
  type AtollOptions,
  type CreateOptions,
  type GetOrCreateOptions,
  type ListOptions,
  type UsageOptions,
} from "./client.ts";
export { type ApprovalListOptions, Approvals } from "./approvals.ts";
export { type ArchiveListOptions, Archives } from "./archives.ts";
export { Audit, type AuditOptions } from "./audit.ts";
export type { Content } from "./channel/channel.ts";
export type { Fetch } from "./channel/fetch.ts";
export * from "./errors.ts";
export type { EventOptions } from "./events.ts";
export { Exec, type ExecEvent, type FollowOptions, type LogOptions, type WaitOptions } from "./exec.ts";
export { Execs, type ExecOptions, type StartOptions } from "./execs.ts";
export { Files, type ReadOptions, type WatchEvent, type WriteOptions } from "./files.ts";
export { Git } from "./git.ts";
export { Images, type PullOptions } from "./images.ts";
export { decodeOctets, encodeOctets } from "./octets.ts";
export { ExecResult } from "./result.ts";
export { Sandbox, Session, type WaitForOptions } from "./sandbox.ts";
export { Secrets } from "./secrets.ts";
export {
  type ForkOptions,
  Forks,
  Snapshot,
  type SnapshotDiffOptions,
  type SnapshotListOptions,
  type SnapshotOptions,
  Snapshots,
} from "./snapshots.ts";
export { type VolumeListOptions, type VolumeOptions, Volumes } from "./volumes.ts";
export type * from "./types.ts";
