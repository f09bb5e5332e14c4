// The API's types under the names that the SDK gives them.

import type { components } from "./generated/openapi.ts";

/** Types as the API describes them, with names in camelCase. */
export type Schemas = components["schemas"];

/** A sandbox as it was when the server said this. */
export type SandboxInfo = Schemas["Sandbox"];
/** What a sandbox is made with. */
export type CreateSandbox = Schemas["CreateSandbox"];
/** A snapshot as it is kept. */
export type SnapshotInfo = Schemas["Snapshot"];
/** How the files of a snapshot came to be. */
export type SnapshotDiff = Schemas["SnapshotDiff"];
export type SnapshotWay = Schemas["SnapshotWay"];
/** An archive as the object store has it. */
export type ArchiveInfo = Schemas["Archive"];
/** An archive that is there and cannot be read, as by another key. */
export type UnreadableArchive = Schemas["UnreadableArchive"];
/** What came of archiving something, and how much of it had to be sent. */
export type Archived = Schemas["Archived"];
/** Where in its life a sandbox is. */
export type SandboxState = Schemas["State"];
/** How a sandbox is that runs. */
export type SandboxHealth = Schemas["SandboxHealth"];
/** Times of a sandbox's life. */
export type Lifecycle = Schemas["Lifecycle"];
/** What a sandbox may use at most. */
export type Limits = Schemas["Limits"];
/** When each stage of a sandbox's creation was over. */
export type Timeline = Schemas["Timeline"];
/** Something that a sandbox was refused on its way out. */
export type Denial = Schemas["Denial"];
/** What a sandbox was refused, the oldest first. */
export type DenialPage = Schemas["DenialPage"];
/** What a sandbox may reach. */
export type NetworkPolicy = Schemas["NetworkPolicy"];
/** How much may pass in the whole life of a sandbox. */
export type NetworkBudgets = Schemas["NetworkBudgets"];
/** A secret of the server, and what becomes of it in a sandbox: either `at` and `as`, or `file`. */
export type NetworkSecret = Schemas["NetworkSecret"];
/** A secret, without its value. */
export type Secret = Schemas["Secret"];
/** Something that was asked for. */
export type Approval = Schemas["Approval"];
/** For what somebody asked. */
export type ApprovalWhat = Schemas["ApprovalWhat"];
/** Where an approval is. */
export type ApprovalStatus = Schemas["ApprovalStatus"];
/** How far an approval reaches. */
export type GrantScope = Schemas["GrantScope"];
/** How an approval was decided. */
export type Decided = Schemas["Decided"];
/** What one sandbox has used. */
export type Usage = Schemas["Usage"];
/** What sandboxes have used, the oldest first, and all together. */
export type Budget = Schemas["Budget"];
export type Budgets = Schemas["Budgets"];
export type SharedBudget = Schemas["SharedBudget"];
export type UsagePage = Schemas["UsagePage"];
/** Amounts that only grow. */
export type Used = Schemas["Used"];
/** An image that is there. */
export type Image = Schemas["Image"];
/** Whether an image is pulled for a sandbox. */
export type ImagePull = Schemas["ImagePull"];
/** How far a pull is. */
export type ImageProgress = Schemas["ImageProgress"];
/** What was removed of images. */
export type Pruned = Schemas["Pruned"];
/** A volume. */
export type Volume = Schemas["Volume"];
/** A volume that a sandbox is to have. */
export type VolumeMount = Schemas["VolumeMount"];
/** What a sandbox may do with a volume. */
export type VolumeAccess = Schemas["VolumeAccess"];
/** One record of the audit log. */
export type AuditRecord = Schemas["AuditRecord"];
/** What was recorded. */
export type AuditKind = Schemas["AuditKind"];
/** Something that happened to a sandbox. */
export type Event = Schemas["Event"];
/** So many events are not kept any more. */
export interface Missed {
  count: number;
}
/** What a server can. */
export type Capabilities = Schemas["Capabilities"];
/** How a server is. */
export type Health = Schemas["Health"];
/** A key of the API, without its secret. */
export type Key = Schemas["Key"];
/** A key of the API that was just made, with its secret. */
export type NewKey = Schemas["NewKey"];
/** What a key allows. */
export type Scope = Schemas["Scope"];
/** A port on which something listens, or that is exposed. */
export type Port = Schemas["Port"];
/** A port that is exposed, and where. */
export type Preview = Schemas["Preview"];
/** Who may use a preview. */
export type Visibility = Schemas["Visibility"];
/** A service that a sandbox is made with. */
export type Service = Schemas["Service"];
/** The files that a sandbox begins with. */
export type Workspace = Schemas["Workspace"];
/** A declared service, and how it is. */
export type ServiceStatus = Schemas["ServiceStatus"];
/** What was waited for came. */
export type Waited = Schemas["Waited"];
/** A command as it was when the server said this. */
export type ExecInfo = Schemas["Exec"];
/** One of a command's two streams. */
export type Stream = Schemas["Stream"];
/** A signal by its name or its number. */
export type Signal = Schemas["Signal"];
/** Who gets a signal. */
export type SignalTarget = Schemas["Target"];
/** The size of a terminal, in characters. */
export type TerminalSize = Schemas["TerminalSize"];
/** As whom a command runs. */
export type User = Schemas["User"];
/** What is known of a file. */
export type FileStat = Schemas["FileStat"];
/** Names below a directory. */
export type Listing = Schemas["Listing"];
/** What to do with a file that is there. */
export type Existing = Schemas["Existing"];
/** One text in place of another. */
export type Replacement = Schemas["Replacement"];
/** A file that was edited, and how often each text was replaced. */
export type Edited = Schemas["Edited"];
/** Lines that were found. */
export type Found = Schemas["Found"];
/** An archive that was unpacked. */
export type Unpacked = Schemas["Unpacked"];
/** What git says of a work tree. */
export type GitStatus = Schemas["GitStatus"];
/** What git says has changed. */
export type GitDiff = Schemas["Diff"];

/** A path inside a sandbox; src/octets.ts says how strings stand for all names. */
export type Path = string | Uint8Array;
/** A text that a shell runs, or a program and its arguments. */
export type Command = string | readonly Path[];
