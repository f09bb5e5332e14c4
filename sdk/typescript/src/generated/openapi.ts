// Generated from openapi/v1.json by `npm run generate`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description What a request that failed is answered with. */
        ApiError: {
            /** @description What kind of error it is. */
            code: components["schemas"]["ErrorCode"];
            /** @description Facts for programs. */
            details?: components["schemas"]["ErrorDetails"];
            /** @description What went wrong, in one sentence without a period. */
            message: string;
            /** @description What to do now, in words that an agent can act on. */
            nextStep: string;
            /** @description Whether to ask again. */
            retry: components["schemas"]["Retry"];
            /** @description Whether anything changed. */
            tookEffect: components["schemas"]["TookEffect"];
        };
        /** @description Changes of a review session that somebody wants to apply. */
        Applying: {
            /**
             * Format: int64
             * @description How many files come.
             */
            added: number;
            /**
             * Format: int64
             * @description How many go.
             */
            deleted: number;
            /** @description What is to be applied, as `sha256:` and 64 digits: a decision holds for nothing else. */
            digest: string;
            /**
             * Format: int64
             * @description How many change.
             */
            modified: number;
            /** @description The paths that were chosen; none where all of the session is to be applied. */
            paths?: string[];
            /** @description The directory of the project. */
            project: string;
            /** @description The first of those. */
            risks?: components["schemas"]["RiskyChange"][];
            /**
             * Format: int64
             * @description How many of them can make something run on the machine.
             */
            risky: number;
            /** @description Where it was said that somebody has to be asked. */
            saidIn: string;
            /** @description The review session. */
            session: string;
        };
        /** @description Something that was asked for. */
        Approval: {
            /** @description When it was first asked for. */
            askedAt: components["schemas"]["Timestamp"];
            /** @description Who asked, if that was no sandbox: `uid:1000` on the unix socket, or the id of a key. */
            askedBy?: string;
            /**
             * Format: int64
             * @description How often it was asked for while nobody had decided.
             */
            count: number;
            /** @description How it was decided. */
            decided?: components["schemas"]["Decided"];
            /** @description Its id. */
            id: components["schemas"]["ApprovalId"];
            /** @description When it was last asked for. */
            lastAskedAt: components["schemas"]["Timestamp"];
            /**
             * @description What of that rule it is about, as in `github.com:443`: a decision holds for the same rule
             *     and name.
             */
            name: string;
            /** @description Until when it waits for a decision. */
            pendingUntil: components["schemas"]["Timestamp"];
            /** @description The rule that says `ask`, as it is written in the policy. */
            rule: string;
            /** @description Which sandbox asked; none where somebody else did. */
            sandboxId?: components["schemas"]["SandboxId"];
            /** @description Where it is. */
            status: components["schemas"]["ApprovalStatus"];
            /** @description For what. */
            what: components["schemas"]["ApprovalWhat"];
        };
        /**
         * @description Names one thing that a person is asked to approve.
         * @example apr_0001020304050607abff
         */
        ApprovalId: string;
        /** @description Approvals, the oldest first. */
        ApprovalPage: {
            /** @description The approvals. */
            approvals: components["schemas"]["Approval"][];
            /**
             * Format: int64
             * @description The `cursor` of the next page; absent on the last one.
             */
            next?: number;
        };
        /**
         * @description Where an approval is.
         * @enum {string}
         */
        ApprovalStatus: "pending" | "approved" | "denied" | "expired";
        /** @description What is asked for. */
        ApprovalWhat: {
            /** @description Where to. */
            host: string;
            /** @enum {string} */
            kind: "network";
            /** @description The method of a request. */
            method?: string;
            /** @description The path of a request, without its query. */
            path?: string;
            /**
             * Format: int32
             * @description To which port.
             */
            port?: number;
        } | {
            /** @description Its words. */
            argv: string[];
            /** @enum {string} */
            kind: "exec";
        } | (components["schemas"]["Applying"] & {
            /** @enum {string} */
            kind: "apply";
        });
        /** @description Approves what was asked for. */
        Approve: {
            /**
             * Format: int64
             * @description For how many seconds it holds. Where nothing is said: ten minutes for `once`, for as long as
             *     it is there for `sandbox`, thirty days for `always`.
             */
            expiresInS?: number;
            /** @description How far it reaches. */
            scope: components["schemas"]["GrantScope"];
        };
        /** @description An archive, as an object store has it. */
        Archive: {
            /** @description When it was archived. */
            archivedAt: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Bytes of these in the store; other archives may have some of them too.
             */
            bytes: number;
            /** @description Its id. */
            id: components["schemas"]["ArchiveId"];
            /** @description What the sandbox was made of, which is not in the archive. */
            image: string;
            /** @description Whether it is encrypted. */
            isEncrypted: boolean;
            /** @description Of what it is. */
            kind: components["schemas"]["ArchiveKind"];
            /** @description Labels of what it is of. */
            labels: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description How many layers it has.
             */
            layers: number;
            /** @description Limits of the sandbox. */
            limits: components["schemas"]["Limits"];
            /** @description The sandbox that it is of, or that the snapshot was taken of. */
            sandboxId: components["schemas"]["SandboxId"];
            /** @description That one's name at the time. */
            sandboxName?: components["schemas"]["SandboxName"];
            /** @description The snapshot that it is of, if it is of one. */
            snapshotId?: components["schemas"]["SnapshotId"];
            /** @description The tier of the sandbox. */
            tier: components["schemas"]["Tier"];
        };
        /**
         * @description What an archive is, in a query.
         * @enum {string}
         */
        ArchiveFormat: "tar" | "tar.gz";
        /**
         * @description Names one archive for good.
         * @example arc_0001020304050607abff
         */
        ArchiveId: string;
        /**
         * @description Of what an archive is.
         * @enum {string}
         */
        ArchiveKind: "snapshot" | "sandbox";
        /** @description A page of a list, in the order of ids. */
        ArchivePage: {
            /** @description The archives. */
            archives: components["schemas"]["Archive"][];
            /** @description What to ask for the next page with, as `after`; absent on the last one. */
            next?: components["schemas"]["ArchiveId"];
            /** @description Those on the page that cannot be read, as by another key. */
            unreadable?: components["schemas"]["UnreadableArchive"][];
        };
        /** @description What came of archiving something. */
        Archived: {
            /** @description The archive. */
            archive: components["schemas"]["Archive"];
            /**
             * Format: int64
             * @description Bytes of these.
             */
            sentBytes: number;
            /**
             * Format: int64
             * @description Layers that had to be sent; the others were there.
             */
            sentLayers: number;
        };
        /** @description Asks whether something may happen that is not a sandbox's. */
        AskApproval: {
            /**
             * Format: int64
             * @description How many files come.
             */
            added: number;
            /**
             * Format: int64
             * @description How many go.
             */
            deleted: number;
            /** @description What is to be applied, as a hash of it. */
            digest: string;
            /** @enum {string} */
            kind: "apply";
            /**
             * Format: int64
             * @description How many change.
             */
            modified: number;
            /** @description The paths that were chosen, at most 100; none where all is to be applied. */
            paths?: string[];
            /** @description The directory of the project. */
            project: string;
            /** @description The first 100 of those. */
            risks?: components["schemas"]["RiskyChange"][];
            /**
             * Format: int64
             * @description How many of them can make something run on the machine.
             */
            risky: number;
            /** @description Where it was said that somebody has to be asked, as in `/home/ada/atoll.toml:3`. */
            saidIn: string;
            /** @description The review session. */
            session: string;
        };
        /** @description What a client asks for on an attached WebSocket, beside input. */
        AttachAction: {
            /** @enum {string} */
            action: "end_stdin";
        } | {
            /** @enum {string} */
            action: "resize";
            /**
             * Format: int32
             * @description Characters in a line.
             */
            columns: number;
            /**
             * Format: int32
             * @description Lines.
             */
            rows: number;
        } | {
            /** @enum {string} */
            action: "signal";
            /** @description Which. */
            signal: components["schemas"]["Signal"];
            /** @description Who gets it. */
            target?: components["schemas"]["Target"];
        };
        /** @description What the server says on an attached WebSocket, beside output. */
        AttachEvent: {
            /** @enum {string} */
            event: "started";
            /** @description The exec. */
            exec: components["schemas"]["Exec"];
        } | (components["schemas"]["Dropped"] & {
            /** @enum {string} */
            event: "dropped";
        }) | {
            /** @enum {string} */
            event: "ended";
            /** @description The exec. */
            exec: components["schemas"]["Exec"];
        } | {
            /** @description Why. */
            error: components["schemas"]["ApiError"];
            /** @enum {string} */
            event: "lost";
        } | {
            /** @enum {string} */
            event: "end";
            /** @description Why. */
            reason: components["schemas"]["EndReason"];
        } | {
            /** @description Why. */
            error: components["schemas"]["ApiError"];
            /** @enum {string} */
            event: "refused";
        } | {
            /** @enum {string} */
            event: "heartbeat";
        };
        /** @description Kinds of record. `by` is who did it: `uid:1000` on the unix socket, or the id of a key. */
        AuditKind: {
            /** @enum {string} */
            kind: "continued";
            /** @description The hash of the record before, which is in the file before; zeros at the very start. */
            previous: string;
        } | {
            /**
             * Format: int64
             * @description Bytes that were taken away.
             */
            bytes: number;
            /** @enum {string} */
            kind: "repaired";
        } | {
            /**
             * Format: int64
             * @description How many.
             */
            count: number;
            /** @enum {string} */
            kind: "lost";
        } | {
            /** @enum {string} */
            kind: "let_go";
            /**
             * Format: int64
             * @description The number of its last record.
             */
            through: number;
        } | {
            /** @enum {string} */
            kind: "server_started";
            /** @description Its version. */
            version: string;
            /** @description The server before ended in order, or there was none. */
            wasInOrder: boolean;
        } | {
            /** @enum {string} */
            kind: "server_stopped";
        } | {
            /** @description What it is made of. */
            image: string;
            /** @enum {string} */
            kind: "sandbox_created";
            /** @description Its name. */
            name?: components["schemas"]["SandboxName"];
        } | {
            /** @enum {string} */
            kind: "sandbox_deleted";
            /** @description Who or what wanted it, as in `request`. */
            reason: string;
        } | {
            /** @enum {string} */
            kind: "snapshot_taken";
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @enum {string} */
            kind: "snapshot_deleted";
            /** @description Who or what wanted it, as in `request` or `delete_after_ms`. */
            reason: string;
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @description What came of it. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "snapshot_archived";
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @description What came of it. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "sandbox_archived";
        } | {
            /** @description Of which archive. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "sandbox_unarchived";
        } | {
            /** @description Which. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "archive_deleted";
        } | {
            /** @description Which. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "archive_restored";
            /** @description What came of it. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @enum {string} */
            kind: "sandbox_restored";
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @description Who made it. */
            by: string;
            /** @description The one that it is a copy of. */
            copyOf?: components["schemas"]["VolumeId"];
            /** @description The folder of the server's machine that it is. */
            hostPath?: string;
            /** @enum {string} */
            kind: "volume_created";
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Which. */
            volumeId: components["schemas"]["VolumeId"];
        } | {
            /** @description Who made it. */
            by: string;
            /** @enum {string} */
            kind: "pool_created";
            /** @description Its name. */
            name: string;
        } | {
            /** @description Who deleted it. */
            by: string;
            /** @enum {string} */
            kind: "pool_deleted";
            /** @description Its name. */
            name: string;
        } | {
            /** @description Who changed it. */
            by: string;
            /**
             * Format: int64
             * @description Bytes that may lie on it; any number where nothing is said.
             */
            bytes?: number;
            /** @enum {string} */
            kind: "volume_limited";
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Which. */
            volumeId: components["schemas"]["VolumeId"];
        } | {
            /** @description Who deleted it. */
            by: string;
            /** @enum {string} */
            kind: "volume_deleted";
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Which. */
            volumeId: components["schemas"]["VolumeId"];
        } | {
            /** @description What was run. Values of secrets are replaced, as in `[secret GITHUB]`. */
            argv: string[];
            /** @description Which. */
            execId: components["schemas"]["ExecId"];
            /** @description There is more of it than was recorded. */
            isCut: boolean;
            /** @enum {string} */
            kind: "exec_started";
            /** @description As whom. */
            user: components["schemas"]["User"];
        } | {
            /** @description Why it was ended, if it was. */
            cause?: components["schemas"]["EndCause"];
            /** @description Which. */
            execId: components["schemas"]["ExecId"];
            /**
             * Format: int32
             * @description Its exit status.
             */
            exitCode?: number;
            /** @enum {string} */
            kind: "exec_ended";
            /**
             * Format: int32
             * @description The number of the signal that ended it.
             */
            signal?: number;
        } | {
            /** @description Who set it. */
            by: string;
            /** @description There was none of that name. */
            isNew: boolean;
            /** @enum {string} */
            kind: "secret_set";
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
        } | {
            /** @description Who deleted it. */
            by: string;
            /** @enum {string} */
            kind: "secret_deleted";
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
        } | {
            /** @description Where it went. */
            host: string;
            /** @enum {string} */
            kind: "secret_used";
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
            /**
             * Format: int32
             * @description To which port.
             */
            port: number;
        } | {
            /** @enum {string} */
            kind: "secret_shown";
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
            /** @description The file. */
            path: string;
        } | {
            /** @description Where it went. */
            host: string;
            /** @enum {string} */
            kind: "egress_allowed";
            /**
             * Format: int32
             * @description To which port.
             */
            port: number;
            /** @description The rule that let it out. */
            rule?: string;
        } | {
            /** @description Why, as in `not-allowed`. */
            code: string;
            /**
             * Format: int64
             * @description How often since it was last recorded.
             */
            count: number;
            /** @description Where it wanted to go. */
            host: string;
            /** @enum {string} */
            kind: "egress_denied";
            /** @description The method of a request. */
            method?: string;
            /** @description The path of a request, without its query. */
            path?: string;
            /**
             * Format: int32
             * @description To which port.
             */
            port?: number;
            /** @description The rule that refused it. */
            rule?: string;
        } | {
            /** @description The approval. */
            approvalId: components["schemas"]["ApprovalId"];
            /** @enum {string} */
            kind: "approval_created";
            /** @description What of it. */
            name: string;
            /** @description The rule. */
            rule: string;
        } | {
            /** @description Which. */
            approvalId: components["schemas"]["ApprovalId"];
            /** @description Who decided. */
            by: string;
            /** @enum {string} */
            kind: "approval_decided";
            /** @description Why, if that was said. */
            reason?: string;
            /** @description How far it reaches, if it was approved. */
            scope?: components["schemas"]["GrantScope"];
            /** @description How. */
            status: components["schemas"]["ApprovalStatus"];
            /** @description Until when it holds. */
            until?: components["schemas"]["Timestamp"];
        } | {
            /** @description Which. */
            approvalId: components["schemas"]["ApprovalId"];
            /** @enum {string} */
            kind: "approval_expired";
        } | {
            /** @description Who changed it. */
            by: string;
            /** @enum {string} */
            kind: "policy_changed";
            /** @description Which part, as in `network`. */
            part: string;
            /** @description SHA-256 of what it is now, as it is kept. */
            sha256: string;
        } | {
            /** @enum {string} */
            kind: "gateway_started";
        } | {
            /** @description How. */
            cause: string;
            /** @enum {string} */
            kind: "gateway_died";
        } | {
            /** @enum {string} */
            kind: "unknown";
        };
        /** @description Records of the log, the oldest first. */
        AuditPage: {
            /**
             * Format: int64
             * @description The number to go on behind, in `after`; none where there is no more now. There may be more
             *     although this page is empty: a page looks through a limited part of the log.
             */
            next?: number;
            /** @description The records. */
            records: components["schemas"]["AuditRecord"][];
        };
        /** @description One record of the log. */
        AuditRecord: {
            /** @description When it happened. */
            at: components["schemas"]["Timestamp"];
            /**
             * @description SHA-256 over the 32 bytes of the hash before and the record as it is written, without this
             *     field, as lower-case hexadecimal digits.
             */
            hash: string;
            /** @description In which sandbox, if in one. */
            sandboxId?: components["schemas"]["SandboxId"];
            /**
             * Format: int64
             * @description Its number: each is one more than that of the record before.
             */
            seq: number;
            /** @description What happened. */
            what: components["schemas"]["AuditKind"];
        };
        /** @description The most that may be used; what is not named has no end. */
        Budget: {
            /**
             * Format: int64
             * @description Bytes that come by the gateway.
             */
            bytesReceived?: number;
            /**
             * Format: int64
             * @description Bytes that leave by the gateway.
             */
            bytesSent?: number;
            /**
             * Format: int64
             * @description Processor time, in microseconds.
             */
            cpuUs?: number;
            /**
             * Format: int64
             * @description Memory times how long: MiB times seconds.
             */
            memoryMibSeconds?: number;
        };
        /**
         * @description For how long a budget of a server is, each time.
         * @enum {string}
         */
        BudgetPeriod: "hour" | "day" | "week" | "month";
        /** @description All budgets that sandboxes of a server have together. */
        Budgets: {
            /** @description By name. */
            budgets: components["schemas"]["SharedBudget"][];
        };
        /** @description A build of a template. */
        Build: {
            /** @description When it was asked for. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description When it ended. */
            endedAt?: components["schemas"]["Timestamp"];
            /** @description Its id. */
            id: components["schemas"]["BuildId"];
            /** @description Of which template. */
            name: components["schemas"]["TemplateName"];
            /** @description Why it failed or was cancelled. */
            reason?: components["schemas"]["BuildReason"];
            /** @description The sandbox in which it is done, while there is one. */
            sandboxId?: components["schemas"]["SandboxId"];
            /** @description How it is. */
            state: components["schemas"]["BuildState"];
            /**
             * Format: int32
             * @description Which step is under way or was the last, from 1; 0 before the first.
             */
            step: number;
            /**
             * Format: int32
             * @description How many of them, from the first, were not done because an earlier build had done them.
             */
            stepsCachedCount: number;
            /**
             * Format: int32
             * @description How many steps it has.
             */
            stepsCount: number;
            /**
             * Format: int32
             * @description The version that it made.
             */
            version?: number;
        };
        /** @description Files that a build can copy. */
        BuildFiles: {
            /** @description Which. */
            files: components["schemas"]["FilesDigest"];
            /** @description Whether they are here. */
            present: boolean;
        };
        /**
         * @description Names one build of a template for good.
         * @example bld_0001020304050607abff
         */
        BuildId: string;
        /** @description A part of a build's log. */
        BuildLog: {
            /**
             * @description Its lines. Those before the first are not kept any more if that has a larger offset than
             *     was asked for.
             */
            entries: components["schemas"]["BuildLogEntry"][];
            /**
             * Format: int64
             * @description What to ask for the next part with, as `offset`.
             */
            next: number;
            /**
             * @description How the build was after these lines: where nothing comes after it, the log is whole when a
             *     part has no lines.
             */
            state: components["schemas"]["BuildState"];
        };
        /** @description A line of a build's log. */
        BuildLogEntry: {
            /** @description When it was written. */
            at: components["schemas"]["Timestamp"];
            /** @description The line, without its end. */
            message: string;
            /**
             * Format: int64
             * @description Its number, from 0.
             */
            offset: number;
            /**
             * Format: int32
             * @description Of which step, from 1; absent if of none.
             */
            step?: number;
            /** @description From where it comes. */
            stream: components["schemas"]["BuildStream"];
        };
        /** @description Why a build made nothing. */
        BuildReason: {
            /**
             * Format: int32
             * @description What a command ended with.
             */
            exitCode?: number;
            /** @description In words. */
            message: string;
            /** @description The last of what it printed. */
            output?: string;
            /**
             * Format: int32
             * @description The step that failed, from 1; absent if it was none of them.
             */
            step?: number;
        };
        /**
         * @description How a build is.
         * @enum {string}
         */
        BuildState: "waiting" | "building" | "ready" | "failed" | "cancelled";
        /**
         * @description From where a line of a build's log comes.
         * @enum {string}
         */
        BuildStream: "build" | "stdout" | "stderr";
        /** @description Asks for a template to be built. What its last build made becomes its latest version. */
        BuildTemplate: {
            /** @description What it is built on, as for a sandbox: `host`, or an image. */
            image?: string;
            /** @description Whether an image of a registry is pulled. */
            imagePull?: components["schemas"]["ImagePull"];
            /**
             * Format: int32
             * @description How many versions are kept, this one included: older ones are deleted when it is there. All
             *     where nothing is said.
             */
            keep?: number;
            /** @description What the build may use, and sandboxes of the template where their request says nothing else. */
            limits?: components["schemas"]["Limits"];
            /** @description Its name. */
            name: components["schemas"]["TemplateName"];
            /**
             * @description What the steps may reach; nothing but their own loopback where nothing is said. Sandboxes
             *     of the template have no network because of it.
             */
            network?: components["schemas"]["NetworkPolicy"];
            /** @description Do every step anew, whatever was done before. */
            noCache?: boolean;
            /**
             * @description What runs whenever a sandbox of it does. It is started once while the template is built, and
             *     must be ready then.
             */
            start?: components["schemas"]["TemplateStart"];
            /** @description What is done, one after the other. */
            steps?: components["schemas"]["TemplateStep"][];
            /**
             * @description The template that it is built on, in place of an image: with its files, variables,
             *     directory and user. Its start command is not taken over.
             */
            template?: components["schemas"]["TemplateRef"];
        };
        /** @description The builds that are remembered. */
        Builds: {
            /** @description The latest first. */
            builds: components["schemas"]["Build"][];
        };
        /** @description Asks for an exec to be ended; `{}` is such a request. */
        CancelExec: {
            /**
             * Format: int64
             * @description How long it may take, in milliseconds, before it is killed with all that it
             *     started. 5000 where nothing is said; 0 kills at once.
             */
            graceMs?: number;
            /** @description The signal that asks it to end, `TERM` where nothing is said. */
            signal?: components["schemas"]["Signal"];
        };
        /** @description What can be asked of a server: its tier, what that can do, and the most that requests may ask for. */
        Capabilities: {
            /** @description What can be done on this host; what cannot is refused by the flag's name. */
            flags: components["schemas"]["CapabilityFlags"];
            /** @description The most that `lifecycle` may ask for; absent where there is no cap. */
            lifecycleMax: components["schemas"]["Lifecycle"];
            /** @description The most that `limits` may ask for; absent where there is no cap. */
            limitsMax: components["schemas"]["Limits"];
            /** @description Why flags are `false`, as far as there is more to say. */
            missing?: components["schemas"]["MissingCapability"][];
            /**
             * Format: int64
             * @description Most sandboxes at once, in every state.
             */
            sandboxesMax: number;
            /** @description How strongly sandboxes are isolated. */
            tier: components["schemas"]["Tier"];
        };
        /** @description What the tier can do on this host. */
        CapabilityFlags: {
            /** @description A limit of processors is enforced. */
            limitCpus: boolean;
            /** @description A limit of disk space is enforced. */
            limitDisk: boolean;
            /** @description A limit of memory is enforced. */
            limitMemory: boolean;
            /** @description A limit of processes is enforced. */
            limitPids: boolean;
            /** @description Processor time is counted, so that a budget of it is enforced. */
            measureCpu: boolean;
            /** @description Processes can be frozen and thawed. */
            pause: boolean;
            /** @description Snapshots can be taken; of one that runs, if it can be paused too. */
            snapshot?: boolean;
            /** @description Commands can run as root inside: `user` is `root`. */
            userRoot: boolean;
            /** @description Volumes can be shown in sandboxes. */
            volumes?: boolean;
            /**
             * @description The root file system of an image can be written, and what was written is kept while the
             *     sandbox is stopped. That of the image `host` is always read-only.
             */
            writableRoot: boolean;
        };
        /**
         * @description What became of a name.
         * @enum {string}
         */
        Change: "made" | "modified" | "written" | "attributes" | "removed";
        /** @description A name has changed. */
        Changed: {
            /** @description In which way. */
            change: components["schemas"]["Change"];
            /** @description It is a directory. */
            isDirectory: boolean;
            /** @description Which, below the directory that is watched. */
            path: components["schemas"]["Octets"];
        };
        /** @description Checks something out. */
        Checkout: {
            /** @description Make a branch of that name, where it stands now. */
            create?: boolean;
            /** @description The repository's directory; its absolute path. */
            path: components["schemas"]["Octets"];
            /** @description A branch, a tag or a commit. */
            target: string;
        };
        /** @description Clones a repository. */
        CloneRepository: {
            /** @description Which branch or tag is checked out; the repository's own where nothing is said. */
            branch?: string;
            /**
             * Format: int32
             * @description Only so many commits of its history.
             */
            depth?: number;
            /** @description Into which directory, which is made; its absolute path. */
            path: components["schemas"]["Octets"];
            /**
             * @description Which: the absolute path of a repository or of a bundle inside, or a URL
             *     `file:///…`. Others are refused, whatever the sandbox may reach: it fetches those by an exec.
             */
            url: string;
        };
        /** @description Asks for a new key. */
        CreateKey: {
            /** @description A note to know it by, without control characters. */
            note?: string;
            /** @description What it allows. */
            scope: components["schemas"]["Scope"];
        };
        /** @description Asks for a pool. */
        CreatePool: {
            /** @description A name that no other pool has. */
            name: components["schemas"]["SandboxName"];
            /**
             * Format: int64
             * @description At least so long from one member's beginning to the next one's; as fast as can be where nothing is
             *     said.
             */
            refillMs?: number;
            /**
             * @description What members are, as in a request for a sandbox; no name, workspace, volumes, or files of secrets,
             *     and of no pool. A request that is given a member has of this what it does not say itself: variables,
             *     labels, times and limits one by one, everything else as a whole.
             */
            sandbox?: components["schemas"]["CreateSandbox"];
            /**
             * Format: int32
             * @description How many members are kept ready.
             */
            size: number;
            /** @description What a request gets when no member is ready. */
            whenExhausted?: components["schemas"]["WhenExhausted"];
        };
        /**
         * @description Asks for a new sandbox.
         *
         *     `{"name": "web", "env": {"PORT": "5173"}, "lifecycle": {"idle_stop_ms": 600000}}`
         *     is such a request; `{}` is one too.
         */
        CreateSandbox: {
            /**
             * @description How much it may use in its whole life. When one of these amounts is used up it is stopped,
             *     and does not start again before it has a larger budget.
             */
            budget?: components["schemas"]["Budget"];
            /** @description Environment of everything that runs in it. */
            env?: components["schemas"]["Env"];
            /**
             * @description Commands that are run in it only when a person approves: see approvals. A request for one
             *     waits for the decision, half a minute at most, and is refused then.
             */
            execAsk?: components["schemas"]["ExecPattern"][];
            /**
             * @description What it is made of. `host`, the default, is the system of the machine itself, read-only.
             *     Else an image: the name of one of a registry, as in `python:3.12-slim`; or on the server's machine
             *     `oci:/PATH[:TAG]`, `oci-archive:/PATH[:TAG]`, `docker-archive:/PATH[:NAME]`, or the absolute path of
             *     one of these, of a directory with a root file system, or of a tar archive of one (plain, gzip or
             *     zstd). It can be written where the flag `writable_root` says so. What is on the server's machine, and
             *     a registry that is spoken to without TLS (`http://…`), need a key of scope `admin`.
             */
            image?: string;
            /** @description Whether an image of a registry is pulled. */
            imagePull?: components["schemas"]["ImagePull"];
            /** @description Labels, to find it by. */
            labels?: {
                [key: string]: string;
            };
            /** @description What happens to it when; the server's defaults where nothing is said. */
            lifecycle?: components["schemas"]["Lifecycle"];
            /** @description What it may use; the server's defaults where nothing is said. */
            limits?: components["schemas"]["Limits"];
            /** @description A name, unique among the sandboxes that are there. */
            name?: components["schemas"]["SandboxName"];
            /**
             * @description What it may reach, by the gateway of the server. Nothing but its own loopback where nothing
             *     is said; and only who has a network can be given more of it later.
             */
            network?: components["schemas"]["NetworkPolicy"];
            /**
             * @description The pool whose member it is to be, in place of an image, a snapshot or a template. What is not said
             *     here is as the pool says.
             */
            pool?: components["schemas"]["SandboxName"];
            /**
             * @description What is to run in it whenever it runs. Creation waits until each is ready or has
             *     failed; one that fails does not make the creation fail.
             */
            services?: components["schemas"]["Service"][];
            /**
             * @description The snapshot that it begins with, in place of an image. Environment, limits, services and
             *     network are those of the sandbox that the snapshot was taken of, where nothing else is said
             *     here: variables and limits one by one, the services and the network each as a whole.
             *     Commands to ask about are added to that one's. No secret goes along with the network; who
             *     wants them names them again.
             */
            snapshot?: components["schemas"]["SnapshotId"];
            /**
             * @description The template that it begins with, in place of an image or a snapshot: its latest version, or
             *     the one that is named as in `web@2`. Environment, limits and services are the template's where
             *     nothing else is said here: variables one by one, everything else as a whole.
             */
            template?: components["schemas"]["TemplateRef"];
            /**
             * @description Volumes that are shown in it, at most 16. None goes along with a snapshot or a template: who
             *     wants one names it.
             */
            volumes?: components["schemas"]["VolumeMount"][];
            /** @description The files that it begins with; none but its image's where nothing is said. */
            workspace?: components["schemas"]["Workspace"];
        };
        /** @description Asks for a snapshot. */
        CreateSnapshot: {
            /**
             * Format: int64
             * @description Deleted after so many milliseconds, at least 1; never where nothing is said. What was made
             *     of it stays.
             */
            deleteAfterMs?: number;
            /**
             * Format: int64
             * @description So many snapshots of the sandbox with exactly these labels are kept, this one included: older ones
             *     are deleted once it is taken. What was made of them stays. All are kept where nothing is said.
             */
            keepLast?: number;
            /** @description Labels, to find it by. */
            labels?: {
                [key: string]: string;
            };
        };
        /** @description Asks for a volume. */
        CreateVolume: {
            /**
             * @description The volume, by its id or name, whose files it begins with, as they are at one moment: sandboxes
             *     that write to that one stand still meanwhile. It is empty where nothing is said.
             */
            copyOf?: components["schemas"]["VolumeRef"];
            /**
             * @description A folder of the server's machine, which is to be the volume: an absolute path without symbolic
             *     links, that whoever runs the server grants. Needs a key of scope `admin`.
             */
            hostPath?: string;
            /** @description Nobody is to write to it, ever. Only for a copy, which is a snapshot then, and for a folder. */
            isReadOnly?: boolean;
            /** @description Labels, to find it by. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description The most that its files may take on the disk, in bytes.
             */
            limitBytes?: number;
            /** @description A name that no other volume has. */
            name: components["schemas"]["VolumeName"];
        };
        /**
         * @description A place in a list. Its text means nothing to clients.
         * @example 1796000000000000.sbx_0001020304050607abff
         */
        Cursor: string;
        /** @description How an approval was decided. */
        Decided: {
            /** @description When. */
            at: components["schemas"]["Timestamp"];
            /** @description Who: `uid:1000` on the unix socket, or the id of a key. */
            by: string;
            /** @description It was for once, and has been used. */
            isUsed?: boolean;
            /** @description Why, if that was said. */
            reason?: string;
            /** @description How far it reaches, if it was approved. */
            scope?: components["schemas"]["GrantScope"];
            /** @description Until when the decision holds; none where it has no end. */
            until?: components["schemas"]["Timestamp"];
        };
        /** @description Something that a sandbox was refused. */
        Denial: {
            /** @description When it was last refused. */
            at: components["schemas"]["Timestamp"];
            /** @description Why, as in `not-allowed` or `approval-pending`. */
            code: string;
            /**
             * Format: int64
             * @description How often, since it was told before.
             */
            count: number;
            /** @description Where it wanted to go. */
            host: string;
            /** @description Whose rule it is, as in `user` or `project`. */
            layer?: string;
            /** @description What happened, in one sentence. */
            message: string;
            /** @description The method of a request. */
            method?: string;
            /** @description What would help, in words that an agent can act on. */
            nextStep: string;
            /** @description The path of a request, without its query. */
            path?: string;
            /**
             * Format: int32
             * @description To which port.
             */
            port?: number;
            /** @description Where on its way it was refused. */
            protocol: components["schemas"]["DenialProtocol"];
            /** @description The rule that decided. */
            rule?: string;
            /**
             * Format: int64
             * @description Its number among those of its sandbox, since the server started.
             */
            seq: number;
        };
        /** @description Denials of a sandbox, the oldest first. */
        DenialPage: {
            /** @description The denials. */
            denials: components["schemas"]["Denial"][];
            /**
             * Format: int64
             * @description How many between the cursor and the first of these are not kept any more.
             */
            missed: number;
            /**
             * Format: int64
             * @description The `cursor` of the next page; absent on the last one.
             */
            next?: number;
        };
        /**
         * @description Where on its way something was refused.
         * @enum {string}
         */
        DenialProtocol: "dns" | "tcp" | "tls" | "http";
        /**
         * @description Denies what was asked for, or takes back that it was approved. That holds for ten minutes for
         *     the same in that sandbox; then it may be asked for again. Requests to where a sandbox was let
         *     before may still go there for half a minute.
         */
        Deny: {
            /** @description Why, for the agent to read; without control characters. */
            reason?: string;
        };
        /** @description Differences as `git diff` prints them. */
        Diff: {
            /** @description There is more. */
            isCut: boolean;
            /** @description The text; what is not UTF-8 is replaced. */
            text: string;
        };
        /** @description A path that differs. */
        DiffEntry: {
            /** @description What is there; absent if there is nothing. */
            after?: components["schemas"]["DiffSide"];
            /** @description What was there; absent if there was nothing. */
            before?: components["schemas"]["DiffSide"];
            /** @description How it differs. */
            difference: components["schemas"]["Difference"];
            /** @description Where it is in a sandbox, absolute. */
            path: components["schemas"]["Octets"];
        };
        /** @description What there is at a path. */
        DiffSide: {
            /**
             * Format: int64
             * @description Its length in bytes; 0 of what is no file.
             */
            bytes: number;
            /** @description What it is. */
            kind: components["schemas"]["FileKind"];
            /** @description Its permissions. */
            mode: components["schemas"]["Mode"];
            /** @description Where a link leads. */
            target?: components["schemas"]["Octets"];
        };
        /**
         * @description How a path differs.
         * @enum {string}
         */
        Difference: "added" | "removed" | "modified" | "attributes" | "type";
        /** @description Files of a sandbox. */
        DiskUsage: {
            /**
             * Format: int64
             * @description Bytes that they take on the host, without the image, which others have too.
             */
            bytes: number;
            /** @description Whether all of them were seen: there may be too many, or too deep. */
            isComplete: boolean;
            /** @description When they were measured. */
            measuredAt: components["schemas"]["Timestamp"];
        };
        /** @description Bytes are not kept any more: the event `dropped`. */
        Dropped: {
            /**
             * Format: int64
             * @description Offset of the first byte that is missing.
             */
            from: number;
            /** @description Of which stream. */
            stream: components["schemas"]["Stream"];
            /**
             * Format: int64
             * @description Offset of the first byte that is there again.
             */
            to: number;
        };
        /**
         * @description Replaces text in a file, all of it or nothing.
         *
         *     Where somebody else has changed the file meanwhile that is a conflict, and so is
         *     text that is not there as often as it should be.
         */
        Edit: {
            /** @description Which; a regular file of at most 32 MiB, before and after. A last link is followed. */
            path: components["schemas"]["Octets"];
            /** @description What is done, each in what those before it have made. */
            replacements: components["schemas"]["Replacement"][];
        };
        /** @description A file that was edited. */
        Edited: {
            /** @description How often each text was there, in the order of the request. */
            replaced: number[];
            /** @description The file that is there now. */
            stat: components["schemas"]["FileStat"];
        };
        /**
         * @description Why an exec was ended.
         * @enum {string}
         */
        EndCause: "timed_out" | "cancelled" | "disconnected";
        /**
         * @description Why a stream ends.
         * @enum {string}
         */
        EndReason: "shutdown" | "snapshot";
        /** @description How an exec ended: with an exit code or by a signal, of which exactly one is there. */
        Ended: {
            /** @description Why it was ended, if it was. */
            cause?: components["schemas"]["EndCause"];
            /**
             * Format: int64
             * @description Processor time of it and of the children that it waited for, in microseconds.
             */
            cpuUs: number;
            /**
             * Format: int64
             * @description From its start to its end, in microseconds.
             */
            durationUs: number;
            /**
             * Format: int32
             * @description The status that its first process exited with.
             */
            exitCode?: number;
            /**
             * Format: int64
             * @description The most memory that one of them held, in KiB.
             */
            maxRssKib: number;
            /**
             * Format: int32
             * @description The number of the signal that ended its first process.
             */
            signal?: number;
        };
        /** @description Environment variables. They may be secrets, so `Debug` shows names only. */
        Env: {
            [key: string]: string;
        };
        /** @description The body of every answer that is an error. */
        ErrorBody: {
            /** @description The error. */
            error: components["schemas"]["ApiError"];
        };
        /**
         * @description Kinds of error; one exists where a caller has something else to do.
         * @enum {string}
         */
        ErrorCode: "not_found" | "wrong_state" | "capacity" | "not_ready" | "timed_out" | "refused_by_policy" | "unsupported_by_tier" | "lost" | "invalid" | "too_large" | "method_not_allowed" | "unauthenticated" | "forbidden" | "conflict" | "unreachable" | "internal";
        /** @description Facts beside the message, each where it applies. */
        ErrorDetails: {
            /** @description The approval that it waits for, or that was denied. */
            approvalId?: components["schemas"]["ApprovalId"];
            /** @description The budget that is used up, if the sandbox has it together with others. */
            budget?: string;
            /** @description The capability flag that the tier lacks. */
            capability?: string;
            /**
             * Format: int32
             * @description The error number of the sandbox's system, where it was that which refused.
             */
            errno?: number;
            /** @description The exec that it is about. */
            execId?: components["schemas"]["ExecId"];
            /** @description The field of the request, as in `lifecycle.lease_ms`. */
            field?: string;
            /**
             * Format: int64
             * @description Bytes that may still be taken there.
             */
            freeBytes?: number;
            /** @description The name of the limit or cap that was met, its unit last, as in `sandboxes_max`. */
            limit?: string;
            /**
             * Format: int64
             * @description The most that the limit allows, in its own unit.
             */
            limitValue?: number;
            /** @description The ports on which something listens, where the one that was wanted is not among them. */
            listening?: number[];
            /**
             * Format: int64
             * @description Bytes that are needed at least, where there is no room for something.
             */
            neededBytes?: number;
            /**
             * Format: int64
             * @description Where the bytes begin that are there, where those that were asked for are not.
             */
            offset?: number;
            /**
             * @description What of several things that `code` can mean: `program_not_found` and
             *     `program_not_executable` of a command, `directory_not_usable` of where it starts,
             *     `exec_not_found`; `approval-pending`, `approval-denied` and `approval-expired`; and of an
             *     image `image-not-found`, `image-not-here`, `image-in-use`, `image-damaged`, `image-refused`,
             *     `image-not-understood`, `registry-unreachable`, `registry-unauthorised`, `registry-limited` and
             *     `registry-answer`.
             */
            reason?: string;
            /** @description The sandbox that it is about. */
            sandboxId?: components["schemas"]["SandboxId"];
            /** @description The scope that the key lacks. */
            scope?: components["schemas"]["Scope"];
            /** @description The state that it is in. */
            state?: components["schemas"]["State"];
        };
        /** @description One thing that happened. */
        Event: {
            /** @description When it happened. */
            at: components["schemas"]["Timestamp"];
            /** @description To which sandbox. */
            sandboxId: components["schemas"]["SandboxId"];
            /**
             * Format: int64
             * @description Its number: later events have larger ones, and none is given twice.
             */
            seq: number;
            /** @description What happened. */
            what: components["schemas"]["EventKind"];
        };
        /** @description Kinds of event. */
        EventKind: {
            /** @enum {string} */
            kind: "requested";
        } | {
            /** @enum {string} */
            kind: "started";
        } | {
            /** @enum {string} */
            kind: "pausing";
        } | {
            /** @enum {string} */
            kind: "paused";
        } | {
            /** @enum {string} */
            kind: "resuming";
        } | {
            /** @enum {string} */
            kind: "stopping";
            /** @description Who or what wanted it, as in `request` or `idle_stop_ms`. */
            reason: string;
        } | {
            /** @description Whether they were killed, rather than having ended by themselves. */
            forced: boolean;
            /** @enum {string} */
            kind: "stopped";
        } | {
            /** @description Why. */
            cause: string;
            /** @enum {string} */
            kind: "undone";
        } | {
            /** @enum {string} */
            kind: "lifecycle_set";
        } | {
            /** @enum {string} */
            kind: "budget_set";
        } | {
            /** @enum {string} */
            kind: "network_set";
        } | {
            /** @enum {string} */
            kind: "exposed";
            /**
             * Format: int32
             * @description Which.
             */
            port: number;
            /** @description By whom. */
            visibility: components["schemas"]["Visibility"];
        } | {
            /** @enum {string} */
            kind: "unexposed";
            /**
             * Format: int32
             * @description Which.
             */
            port: number;
        } | {
            /** @enum {string} */
            kind: "snapshotted";
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @description What will come of it. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "archiving";
            /** @description Who or what wanted it, as in `request` or `archive_after_ms`. */
            reason: string;
        } | {
            /** @description What came of it. */
            archiveId: components["schemas"]["ArchiveId"];
            /** @enum {string} */
            kind: "archived";
        } | {
            /** @enum {string} */
            kind: "restored";
            /** @description Which. */
            snapshotId: components["schemas"]["SnapshotId"];
        } | {
            /** @enum {string} */
            kind: "volume_shared";
            /** @description Which. */
            volumeId: components["schemas"]["VolumeId"];
            /** @description The others. */
            with: components["schemas"]["SandboxId"][];
        } | {
            /** @description Why. */
            cause: string;
            /** @enum {string} */
            kind: "failed";
        } | {
            /** @enum {string} */
            kind: "deleted";
            /** @description Who or what wanted it, as in `request` or `lease_ms`. */
            reason: string;
        } | {
            /** @enum {string} */
            kind: "removed";
        } | {
            /** @description Why. */
            cause: string;
            /** @enum {string} */
            kind: "not_removed";
        } | {
            /** @enum {string} */
            kind: "adopted";
        };
        /** @description A command that was started in a sandbox. */
        Exec: {
            /**
             * @description The program and its arguments; in a session, the one text of shell. A list of
             *     execs has no more than the first 512 bytes of it.
             */
            command: components["schemas"]["Octets"][];
            /** @description How it ended. */
            ended?: components["schemas"]["Ended"];
            /**
             * Format: int64
             * @description How many bytes of input it was fed.
             */
            fedBytes: number;
            /** @description Its id, as whoever started it chose it, or made for it. */
            id: components["schemas"]["ExecId"];
            /** @description Why it is lost. */
            lost?: components["schemas"]["ApiError"];
            /** @description The name that it was given. */
            name?: string;
            /**
             * Format: int32
             * @description Its first process, in the sandbox's own numbers.
             */
            pid: number;
            /** @description The session that it is part of. */
            session?: string;
            /**
             * Format: int64
             * @description How long ago it started, in milliseconds. Time in which the sandbox is paused
             *     does not count.
             */
            startedAgoMs: number;
            /** @description Where in its life it is. */
            state: components["schemas"]["ExecState"];
            /** @description Its standard error. */
            stderr: components["schemas"]["Printed"];
            /** @description Its standard output, or what its terminal shows. */
            stdout: components["schemas"]["Printed"];
            /** @description It runs in a terminal of this size. */
            terminal?: components["schemas"]["TerminalSize"];
        };
        /**
         * @description Names one command that was started in a sandbox.
         * @example exe_0001020304050607abff
         */
        ExecId: string;
        /**
         * @description Words of a command; `*` stands for any text in a word, and as the last word for any words.
         * @example git push *
         */
        ExecPattern: string;
        /** @description An exec and what it printed so far. */
        ExecResult: {
            /**
             * @description What its sandbox was refused on its way out while it ran: the last 50. Another command of
             *     that time may have been the one.
             */
            denials?: components["schemas"]["Denial"][];
            /** @description The exec. Its state says whether this is all. */
            exec: components["schemas"]["Exec"];
            /** @description Its standard error. */
            stderr: components["schemas"]["Kept"];
            /** @description Its standard output, or what its terminal shows. */
            stdout: components["schemas"]["Kept"];
        };
        /**
         * @description Where in its life an exec is.
         * @enum {string}
         */
        ExecState: "running" | "ended" | "lost";
        /** @description All execs that a sandbox remembers, in the order of their start. */
        Execs: {
            /** @description The execs. */
            execs: components["schemas"]["Exec"][];
        };
        /**
         * @description What to do with a file that is there.
         * @enum {string}
         */
        Existing: "replace" | "append" | "keep";
        /** @description How often something must be there: a number, or `any` for at least once. */
        Expected: number | "any";
        /** @description Asks for a port to be exposed; `{}` is such a request. */
        ExposePort: {
            /**
             * Format: int64
             * @description After how many milliseconds it is not exposed any more; without it, until it is
             *     taken back or the sandbox is deleted.
             */
            expiresInMs?: number;
            /** @description Who may use it. */
            visibility?: components["schemas"]["Visibility"];
        };
        /**
         * @description What a name is.
         * @enum {string}
         */
        FileKind: "file" | "directory" | "link" | "other";
        /** @description What is known of a name. */
        FileStat: {
            /**
             * Format: int64
             * @description Its length in bytes.
             */
            bytes: number;
            /**
             * Format: int32
             * @description Its group inside.
             */
            gid: number;
            /** @description What it is. */
            kind: components["schemas"]["FileKind"];
            /** @description Its permissions. */
            mode: components["schemas"]["Mode"];
            /**
             * Format: int64
             * @description When its content changed, in microseconds since 1970.
             */
            modifiedUs: number;
            /** @description Its path, as it was asked for; in a list, below the directory. */
            path: components["schemas"]["Octets"];
            /** @description Where a link leads. */
            target?: components["schemas"]["Octets"];
            /**
             * Format: int32
             * @description Its owner inside.
             */
            uid: number;
            /** @description In a list: a directory whose names could not be read, and why. */
            unread?: components["schemas"]["ErrorCode"];
        };
        /**
         * @description Names files that a build copies: the SHA-256 of a tar archive of them, not compressed.
         * @example sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
         */
        FilesDigest: string;
        /** @description What became of one. */
        Fork: {
            /** @description It runs. */
            sandbox: components["schemas"]["Sandbox"];
        } | {
            /** @description There is none, and nothing is left of it. */
            error: components["schemas"]["ApiError"];
        };
        /** @description Asks for a snapshot of a sandbox, and for sandboxes made of it. */
        ForkSandbox: {
            /**
             * Format: int32
             * @description How many, 1 to 1000.
             */
            count?: number;
            /** @description What they differ in from the sandbox; as in [`ForkSnapshot`]. */
            sandbox?: components["schemas"]["CreateSandbox"];
            /** @description What the snapshot has, which stays when they are made. */
            snapshot?: components["schemas"]["CreateSnapshot"];
        };
        /** @description Asks for sandboxes made of a snapshot. */
        ForkSnapshot: {
            /**
             * Format: int32
             * @description How many, 1 to 1000.
             */
            count?: number;
            /**
             * @description What they differ in from the sandbox that the snapshot was taken of; see
             *     [`CreateSandbox::snapshot`]. Of several, names have `-1`, `-2` and so on behind them.
             */
            sandbox?: components["schemas"]["CreateSandbox"];
        };
        /** @description What became of a request for sandboxes made of a snapshot. */
        Forks: {
            /** @description One for each that was asked for. */
            forks: components["schemas"]["Fork"][];
            /** @description Of what they were made. */
            snapshotId: components["schemas"]["SnapshotId"];
        };
        /** @description Lines that were found, sorted by path and line. */
        Found: {
            /** @description There may be more. */
            isCut: boolean;
            /** @description At most as many as were asked for. */
            matches: components["schemas"]["Match"][];
            /**
             * Format: int64
             * @description How many files were searched.
             */
            searched: number;
            /**
             * Format: int64
             * @description How many were not, or not to their end.
             */
            skipped: number;
        };
        /**
         * @description What became of a path.
         * @enum {string}
         */
        GitChange: "unmodified" | "modified" | "type_changed" | "added" | "deleted" | "renamed" | "copied" | "unmerged" | "untracked" | "ignored";
        /** @description A path that has changed, or that is not tracked. */
        GitEntry: {
            /** @description Where it was renamed or copied from. */
            from?: components["schemas"]["Octets"];
            /** @description What is staged of it. */
            index: components["schemas"]["GitChange"];
            /** @description Which, from the top of the repository. */
            path: components["schemas"]["Octets"];
            /** @description What is not staged of it. */
            worktree: components["schemas"]["GitChange"];
        };
        /** @description How a repository is. */
        GitStatus: {
            /**
             * Format: int64
             * @description How many commits it has that the upstream has not.
             */
            ahead: number;
            /**
             * Format: int64
             * @description How many the upstream has that it has not.
             */
            behind: number;
            /** @description The branch that is checked out; absent where it is a commit. */
            branch?: string;
            /** @description The commit that is checked out; absent before the first one. */
            commit?: string;
            /** @description What has changed, and what is not tracked. */
            entries: components["schemas"]["GitEntry"][];
            /** @description There are more entries. */
            isCut: boolean;
            /** @description The branch that it follows. */
            upstream?: string;
        };
        /** @description Finds names below a directory. Links are not entered, nor other file systems. */
        Glob: {
            /**
             * Format: int32
             * @description Most entries.
             */
            limit?: number;
            /** @description Below which. */
            path: components["schemas"]["Octets"];
            /**
             * @description Which paths, as they are below it: `*` and `?` match no slash, `**` matches
             *     directories, and there are `[…]` and `{…,…}`. Names with a dot are matched too.
             */
            pattern: string;
            /** @description Leave out what `.gitignore` files in and below the directory ignore, and `.git`. */
            respectsIgnore?: boolean;
        };
        /**
         * @description How far an approval reaches.
         * @enum {string}
         */
        GrantScope: "once" | "sandbox" | "always";
        /**
         * @description Finds lines in a file, or in those below a directory.
         *
         *     Links are not entered, nor other file systems. Files with a NUL byte are binary and
         *     left out from there on.
         */
        Grep: {
            /** @description Letters match in either case. */
            ignoresCase?: boolean;
            /**
             * @description Only in files that match one of these, as in `Glob`; one without a slash is
             *     matched with the name alone. All where there is none.
             */
            include?: string[];
            /** @description The pattern is text and no expression. */
            isLiteral?: boolean;
            /**
             * Format: int32
             * @description Most lines.
             */
            limit?: number;
            /** @description In which file, or below which directory. */
            path: components["schemas"]["Octets"];
            /** @description A regular expression, in the syntax of Rust's `regex`: linear in time. */
            pattern: string;
            /** @description As in `Glob`. */
            respectsIgnore?: boolean;
        };
        /** @description How a guest is, as it says. */
        GuestHealth: {
            /**
             * Format: int64
             * @description How long it has been there, in milliseconds. Time in which the sandbox is paused
             *     does not count.
             */
            ageMs: number;
            /** @description Descriptors that it holds. */
            descriptors: components["schemas"]["Use"];
            /** @description Bytes that it keeps of what execs printed. */
            keptBytes: components["schemas"]["Use"];
            /**
             * Format: int32
             * @description Processes in the sandbox.
             */
            processes: number;
            /**
             * Format: int32
             * @description Execs that run.
             */
            runningExecs: number;
        };
        /** @description How a server is. It is `ok` if every check is. */
        Health: {
            /** @description What was looked at. */
            checks: components["schemas"]["HealthCheck"][];
            /** @description The worst of the checks. */
            status: components["schemas"]["HealthStatus"];
        };
        /** @description One thing that was looked at. */
        HealthCheck: {
            /** @description What: `descriptors`, `records`, `disk` or `shutdown`. */
            name: string;
            /** @description What is wrong; absent if nothing is. */
            reason?: string;
            /** @description How it is. */
            status: components["schemas"]["HealthStatus"];
        };
        /**
         * @description How something is.
         * @enum {string}
         */
        HealthStatus: "ok" | "degraded" | "failing";
        /** @description One reason why a sandbox counts as at work. Each ends by itself at `until`. */
        Hold: {
            /** @description What it is held by. */
            cause: components["schemas"]["HoldCause"];
            /** @description Since when. */
            since: components["schemas"]["Timestamp"];
            /** @description When the hold stops to count, whatever its cause does. */
            until: components["schemas"]["Timestamp"];
        };
        /** @description What a sandbox can be held by. */
        HoldCause: {
            /** @description Which. */
            execId: components["schemas"]["ExecId"];
            /** @enum {string} */
            kind: "exec";
        } | {
            /** @enum {string} */
            kind: "stream";
            /** @description To what, as in `terminal`. */
            name: string;
        } | {
            /** @enum {string} */
            kind: "service";
            /** @description Its name. */
            name: string;
        } | {
            /** @enum {string} */
            kind: "cpu";
        };
        /** @description An answer to a request `GET`. Redirects are answers, and not followed. */
        HttpAnswer: {
            /** @description What is asked for; `/` where nothing is said. */
            path?: string;
            /**
             * Format: int32
             * @description Of which port of its loopback.
             */
            port: number;
            /**
             * Format: int32
             * @description With this status; any below 500 where nothing is said.
             */
            status?: number;
        };
        /** @description An image that is there. */
        Image: {
            /** @description For which processors it is, as in `amd64`. */
            architecture: string;
            /** @description When it was built, as it says. */
            builtAt?: string;
            /** @description How it wants to be run. */
            config: components["schemas"]["ImageConfig"];
            /** @description When it came here. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description The digest of its configuration, `sha256:` and 64 digits: it says all that the image is. */
            digest: string;
            /** @description Digests of its layers when decompressed, the lowest first. */
            layers: string[];
            /** @description What it is called. */
            names: components["schemas"]["ImageName"][];
            /**
             * Format: int64
             * @description Bytes of its layers, those that it shares with other images included.
             */
            sizeBytes: number;
            /** @description When something was last made of it. */
            usedAt: components["schemas"]["Timestamp"];
        };
        /**
         * @description How an image wants to be run. A sandbox of it has its variables and its working directory.
         *     Nothing is started by itself; commands run as the sandbox's user, or as root if they ask for that.
         */
        ImageConfig: {
            /** @description The arguments that it names, or the program. */
            cmd: string[];
            /** @description The program that it names, with the first of its arguments. */
            entrypoint: string[];
            /** @description Variables of commands, as `NAME=value`. */
            env: string[];
            /** @description Ports that it says it listens at, as in `80/tcp`. */
            ports: string[];
            /** @description The user that it names. Commands do not run as that one: see above. */
            user?: string;
            /** @description Directory of commands. */
            workdir?: string;
        };
        /** @description A name of an image. */
        ImageName: {
            /** @description The digest of the manifest that the registry had by that name. */
            manifest?: string;
            /** @description The name, whole. */
            name: string;
        };
        /** @description How far a pull is. Nothing is known before its manifest is there. */
        ImageProgress: {
            /**
             * Format: int64
             * @description How many of these have come.
             */
            bytesDone: number;
            /**
             * Format: int64
             * @description Bytes of these, as they are packed.
             */
            bytesTotal: number;
            /**
             * Format: int64
             * @description How many of these are there by now.
             */
            layersDone: number;
            /**
             * Format: int64
             * @description Layers that are fetched: those that are not there yet.
             */
            layersTotal: number;
        };
        /**
         * @description Whether an image is pulled for a sandbox.
         * @enum {string}
         */
        ImagePull: "missing" | "never" | "always";
        /** @description All images. */
        Images: {
            /** @description They, by their digests. */
            images: components["schemas"]["Image"][];
        };
        /** @description What is there of a stream: all of it, or its head and its tail. */
        Kept: {
            /**
             * Format: int64
             * @description How many bytes behind these are not here. Where they are more than
             *     `dropped_bytes` of the exec's stream, the others can be read from the raw stream.
             */
            droppedBytes: number;
            /** @description The first bytes. */
            head: components["schemas"]["Output"];
            /** @description The last bytes; only where bytes between are not here. */
            tail?: components["schemas"]["Output"];
        };
        /** @description A key, without its secret. */
        Key: {
            /** @description When it was made. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Its id, which is no secret. */
            id: components["schemas"]["KeyId"];
            /** @description A note to know it by. */
            note: string;
            /** @description What it allows. */
            scope: components["schemas"]["Scope"];
        };
        /**
         * @description Names one key of the API; it is not the key's secret.
         * @example key_0001020304050607abff
         */
        KeyId: string;
        /** @description All keys of a server, oldest first; there are at most 1000. */
        Keys: {
            /** @description The keys. */
            keys: components["schemas"]["Key"][];
        };
        /**
         * @description A label as `key=value`.
         * @example team=red
         */
        LabelFilter: string;
        /**
         * @description What happens to a sandbox when. Every time is in milliseconds and at least 1.
         *
         *     Idle means that nothing works inside, not that no request comes in.
         */
        Lifecycle: {
            /**
             * Format: int64
             * @description Archived after it was stopped for this long: its files are kept in object storage, until it
             *     is resumed. Only where the server has a place for archives.
             */
            archiveAfterMs?: number;
            /**
             * Format: int64
             * @description Deleted after it was stopped for this long, archived or not.
             */
            deleteAfterMs?: number;
            /**
             * Format: int64
             * @description Stopped after it was idle for this long.
             */
            idleStopMs?: number;
            /**
             * Format: int64
             * @description Deleted this long after it was made or its lease renewed, whatever it does.
             */
            leaseMs?: number;
            /**
             * Format: int64
             * @description Deleted this long after it was made, however often its lease is renewed.
             */
            maxLifetimeMs?: number;
        };
        /** @description What a sandbox may use at most. */
        Limits: {
            /**
             * Format: int64
             * @description Processors in thousandths, at least 10: 1500 is one and a half.
             */
            cpusMilli?: number;
            /**
             * Format: int64
             * @description Bytes on disk beyond its image, at least 1 MiB.
             */
            diskBytes?: number;
            /**
             * Format: int64
             * @description Memory in bytes, at least 1 MiB.
             */
            memoryBytes?: number;
            /**
             * Format: int64
             * @description Processes and threads at once, at least 1.
             */
            pids?: number;
        };
        /** @description Names below a directory, sorted. */
        Listing: {
            /** @description At most as many as were asked for; those that are less deep first. */
            entries: components["schemas"]["FileStat"][];
            /** @description There are more. */
            isCut: boolean;
        };
        /** @description A line that an exec prints. What is not kept any more is not looked at. */
        LogLine: {
            /** @description Which exec. */
            exec: components["schemas"]["ExecId"];
            /**
             * @description A regular expression, in the syntax of Rust's `regex`, that matches somewhere in
             *     the line. A line is looked at in pieces of 64 KiB.
             */
            pattern: string;
            /** @description On which stream; on either where nothing is said. */
            stream?: components["schemas"]["Stream"];
        };
        /** @description Makes a directory. One that is there is not touched. */
        MakeDirectory: {
            /** @description Make directories that are missing. */
            makeParents?: boolean;
            /** @description Its mode, and that of parents that are made; 0755 where nothing is said. */
            mode?: components["schemas"]["Mode"];
            /** @description Where. */
            path: components["schemas"]["Octets"];
        };
        /** @description A line that was found. */
        Match: {
            /**
             * Format: int64
             * @description Where in the line it begins, in bytes from 0.
             */
            column: number;
            /**
             * Format: int64
             * @description Which line, from 1.
             */
            line: number;
            /** @description The file, below the directory; empty for the file that was asked for. */
            path: components["schemas"]["Octets"];
            /**
             * @description The line without its end, cut where it is very long; what is not UTF-8 is
             *     replaced.
             */
            text: string;
        };
        /** @description A flag that this host lacks. */
        MissingCapability: {
            /** @description The name of the flag. */
            flag: string;
            /** @description Why it is missing, and what would change that. */
            reason: string;
        };
        /**
         * @description The low 12 bits of a file's mode, in octal.
         * @example 0644
         */
        Mode: string;
        /** @description A volume that a sandbox has. */
        MountedVolume: {
            /** @description What it may do with it. */
            access: components["schemas"]["VolumeAccess"];
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Where inside. */
            path: string;
            /** @description Which. */
            volumeId: components["schemas"]["VolumeId"];
            /** @description What to beware of. */
            warning?: string;
        };
        /** @description Moves a name. */
        Move: {
            /** @description Which. */
            from: components["schemas"]["Octets"];
            /** @description Replace what is there, as rename(2) does. */
            replace?: boolean;
            /** @description Where to; the new name itself, not the directory to put it in. */
            to: components["schemas"]["Octets"];
        };
        /** @description How much may pass in the whole life of a sandbox. What is not said is not bounded. */
        NetworkBudgets: {
            /**
             * Format: int64
             * @description Bytes, both ways together.
             */
            bytesMax?: number;
            /**
             * Format: int64
             * @description Bytes to and from one host.
             */
            bytesPerHostMax?: number;
            /**
             * Format: int64
             * @description Requests of HTTP.
             */
            requestsMax?: number;
            /**
             * Format: int64
             * @description Requests of HTTP to one host.
             */
            requestsPerHostMax?: number;
        };
        /**
         * @description What the sandbox may reach. The order is from widest to strictest.
         * @enum {string}
         */
        NetworkMode: "rules" | "none";
        /**
         * @description What a sandbox may reach. `{"presets": ["python"], "allow": ["api.example.org"]}` is such a
         *     policy; with `{}` nothing is reached, but more may be allowed while the sandbox lives.
         *
         *     A rule is `[PROTOCOL://][METHOD[,METHOD]@]HOST[:PORT[,PORT]][/PATH]`. The most precise one
         *     decides; among equally precise ones `deny` comes before `ask`, and `ask` before `allow` and
         *     presets. What no rule is about is refused.
         */
        NetworkPolicy: {
            /** @description Rules: what may be reached. */
            allow?: string[];
            /** @description Rules: what a person is asked about. */
            ask?: string[];
            /** @description How much may pass. */
            budgets?: components["schemas"]["NetworkBudgets"];
            /** @description Rules: what is refused. */
            deny?: string[];
            /** @description Refused names lead to an answer with the reason. */
            explain?: boolean;
            /** @description Hosts are reached over IPv6 too. */
            ipv6?: boolean;
            /** @description `rules`, or `none`: loopback inside and nothing else, whatever the rules say. */
            mode?: components["schemas"]["NetworkMode"];
            /** @description Names of lists of hosts that are often allowed together. */
            presets?: string[];
            /** @description `HTTP_PROXY` and its like are set inside, for programs that want them. */
            proxyVariables?: boolean;
            /** @description Secrets of the server, and what becomes of them. To say so needs a key of scope `admin`. */
            secrets?: components["schemas"]["NetworkSecret"][];
        };
        /** @description A secret and what becomes of it: either `at` and `as`, or `file`. */
        NetworkSecret: {
            /** @description Where in a request it is put. */
            as?: components["schemas"]["SecretUse"];
            /** @description Rules about the hosts that get it: of one name each, by https alone. */
            at?: string[];
            /** @description The variable inside that holds what stands for it. */
            env?: string;
            /**
             * @description The file inside, below `/run/secrets`, that has the value itself: whatever runs there can read
             *     it and send it on. It has the value that the secret has when its sandbox is started, until that
             *     is stopped.
             */
            file?: string;
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
        };
        /** @description What went through the gateway. */
        NetworkUsage: {
            /**
             * Format: int64
             * @description Bytes that came.
             */
            bytesReceived: number;
            /**
             * Format: int64
             * @description Bytes that left, of bodies and of connections that are no HTTP.
             */
            bytesSent: number;
            /**
             * Format: int64
             * @description Other connections that were let through.
             */
            connections: number;
            /**
             * Format: int64
             * @description Questions, connections and requests that were refused.
             */
            denied: number;
            /**
             * Format: int64
             * @description Questions for names.
             */
            questions: number;
            /**
             * Format: int64
             * @description Requests of HTTP that were let through.
             */
            requests: number;
        };
        /** @description A key that was just made. `Debug` does not show the secret. */
        NewKey: {
            /** @description What is known of it from now on. */
            key: components["schemas"]["Key"];
            /** @description The secret, which is shown this once: only its hash is kept. */
            secret: string;
        };
        /** @description Bytes that are mostly text, as `decodeOctets` gives them. */
        Octets: string;
        /** @description How a sandbox came of a pool. */
        OfPool: {
            /**
             * @description Why it was made from the start and is none of its members: the pool was `exhausted`, or the request
             *     has something that a member cannot be given any more, as in `limits`.
             */
            coldBecause?: string;
            /** @description Which. */
            name: components["schemas"]["SandboxName"];
        };
        /**
         * @description What becomes of an exec when the request that started it ends before it does.
         * @enum {string}
         */
        OnDisconnect: "go_on" | "kill";
        /** @description Bytes that a command printed: text where they are UTF-8, else base64. */
        Output: {
            /** @description The bytes as they are. */
            text: string;
        } | {
            /** @description The bytes in base64 (RFC 4648, section 4). */
            base64: string;
        };
        /** @description Something was printed: the event `output`. */
        OutputEvent: components["schemas"]["Output"] & {
            /**
             * Format: int64
             * @description Offset of the first byte.
             */
            offset: number;
            /** @description To which stream. */
            stream: components["schemas"]["Stream"];
        };
        /** @description A pool as the API shows it. */
        Pool: {
            /** @description When it was made. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Why the last member could not be made, until one is. */
            error?: string;
            /**
             * Format: int64
             * @description Requests that got a member since the server was started.
             */
            given: number;
            /**
             * Format: int32
             * @description Members that are being made.
             */
            making: number;
            /**
             * Format: int64
             * @description Requests since then that got none: refused, or made from the start.
             */
            missed: number;
            /** @description Its name. */
            name: components["schemas"]["SandboxName"];
            /** @description What members are made of: an image, a snapshot's id or a template, as the pool was told. */
            of: string;
            /**
             * Format: int32
             * @description Members that are ready.
             */
            ready: number;
            /**
             * Format: int64
             * @description At least so long from one member's beginning to the next one's.
             */
            refillMs: number;
            /**
             * Format: int32
             * @description How many members are kept ready.
             */
            size: number;
            /** @description What a request gets when no member is ready. */
            whenExhausted: components["schemas"]["WhenExhausted"];
        };
        /** @description All pools, by name. */
        Pools: {
            /** @description The pools. */
            pools: components["schemas"]["Pool"][];
        };
        /** @description A port on which something listens, or that is exposed. */
        Port: {
            /** @description It accepts connections to every address, not only to loopback. */
            isAnyAddress: boolean;
            /** @description Whether something listens; in a sandbox that does not run, nothing does. */
            isListening: boolean;
            /**
             * Format: int32
             * @description The port.
             */
            port: number;
            /** @description Where it is exposed, if it is. */
            preview?: components["schemas"]["Preview"];
        };
        /** @description The ports of a sandbox, lowest first. */
        Ports: {
            /** @description The ports. */
            ports: components["schemas"]["Port"][];
        };
        /** @description A port that is exposed, and where. `Debug` does not show the token. */
        Preview: {
            /** @description When it ends by itself. */
            expiresAt?: components["schemas"]["Timestamp"];
            /**
             * @description Where it is below the server's own address, for programs and where names below
             *     the domain of previews are not resolved.
             */
            pathUrl: string;
            /**
             * Format: int32
             * @description The port.
             */
            port: number;
            /** @description The token of a private preview. Whoever may only see is not shown it. */
            token?: components["schemas"]["PreviewToken"];
            /**
             * @description Where it is, as a host of its own: what browsers need. With a token where it is
             *     private and whoever asks may use sandboxes.
             */
            url: string;
            /** @description Who may use it. */
            visibility: components["schemas"]["Visibility"];
        };
        /**
         * @description Opens a private preview.
         * @example 000102030405060708090a0b0c0d0e0f
         */
        PreviewToken: string;
        /** @description How much a stream has carried. */
        Printed: {
            /**
             * Format: int64
             * @description All bytes, kept or not.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Of these dropped between the head and the tail that are kept.
             */
            droppedBytes: number;
        };
        /** @description Asks for images that nothing uses to be removed. */
        PruneImages: {
            /** @description Also those that have a name. */
            all?: boolean;
        };
        /** @description What was removed. */
        Pruned: {
            /**
             * Format: int64
             * @description Bytes of these.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Images.
             */
            images: number;
            /**
             * Format: int64
             * @description Layers that no image had any more.
             */
            layers: number;
        };
        /** @description Asks for an image to be pulled or imported. */
        PullImage: {
            /**
             * @description Which: as in `python:3.12-slim` or `registry.example/team/tools:1`, a registry that is spoken to
             *     without TLS as in `http://127.0.0.1:5000/tools`; or on the server's machine
             *     `oci:/PATH[:TAG]`, `oci-archive:/PATH[:TAG]`, `docker-archive:/PATH[:NAME]`, or the path of any of
             *     these.
             */
            image: string;
        };
        /** @description Sets a secret: its value as text, or in base64. `Debug` shows neither. */
        PutSecret: {
            /** @description The value as text, of 1 to 65536 bytes. */
            value?: string;
            /** @description The value in base64 (RFC 4648, section 4), where it is no text. */
            valueBase64?: string;
        };
        /** @description What shows that a service can be used. */
        Ready: {
            /**
             * Format: int32
             * @description Something listens on this port of the sandbox's loopback, 1 to 65535.
             */
            port: number;
        } | {
            /** @description It has printed a line. */
            log: components["schemas"]["ReadyLine"];
        } | {
            /** @description A port answers over HTTP. */
            http: components["schemas"]["HttpAnswer"];
        };
        /** @description A line that a service prints. */
        ReadyLine: {
            /**
             * @description A regular expression, in the syntax of Rust's `regex`, that matches somewhere in
             *     the line. A line is looked at in pieces of 64 KiB.
             */
            pattern: string;
            /** @description On which stream; on either where nothing is said. */
            stream?: components["schemas"]["Stream"];
        };
        /** @description Removes a name. A link is removed, not followed. */
        Remove: {
            /** @description Which. */
            path: components["schemas"]["Octets"];
            /** @description A directory with everything in it. */
            recursive?: boolean;
        };
        /** @description One text in place of another. */
        Replacement: {
            /** @description How often the old text must be there; once where nothing is said. */
            expected?: components["schemas"]["Expected"];
            /** @description What is to be there. */
            new: string;
            /** @description What is there: byte for byte, not a pattern, and not empty. */
            old: string;
        };
        /** @description Asks for an exec's terminal to get another size. */
        ResizeExec: {
            /**
             * Format: int32
             * @description Characters in a line.
             */
            columns: number;
            /**
             * Format: int32
             * @description Lines.
             */
            rows: number;
        };
        /**
         * @description When a service that has ended is started again. The pause before grows with every
         *     failure in a row, up to half a minute.
         * @enum {string}
         */
        Restart: "never" | "on_failure" | "always";
        /** @description Asks for a sandbox to be put back to a snapshot. */
        RestoreSandbox: {
            /** @description Which. */
            snapshot: components["schemas"]["SnapshotId"];
        };
        /** @description What came of an archive. */
        RestoredArchive: {
            /** @description A snapshot, with an id of its own. */
            snapshot: components["schemas"]["Snapshot"];
        } | {
            /** @description A sandbox, with an id of its own. It runs. */
            sandbox: components["schemas"]["Sandbox"];
        };
        /** @description Whether to ask again. */
        Retry: {
            /** @enum {string} */
            kind: "safe";
        } | {
            /** @enum {string} */
            kind: "unsafe";
        } | {
            /**
             * Format: int64
             * @description How long to wait, in milliseconds.
             */
            afterMs: number;
            /** @enum {string} */
            kind: "after";
        };
        /** @description A change that can make something run on the machine. */
        RiskyChange: {
            /** @description What becomes of it, as in `added`. */
            change: string;
            /** @description Relative to the project. */
            path: string;
            /** @description Why it is risky. */
            why: string;
        };
        /** @description A sandbox as the API shows it. Its environment is not shown. */
        Sandbox: {
            /** @description Where its files are, while it is archived. */
            archiveId?: components["schemas"]["ArchiveId"];
            /** @description How much it may use in its whole life. */
            budget?: components["schemas"]["Budget"];
            /** @description Why it is in its state, if nobody asked for that. */
            cause?: string;
            /** @description When it was asked for. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Commands that are run in it only when a person approves. */
            execAsk?: components["schemas"]["ExecPattern"][];
            /** @description What keeps it awake now. */
            holds: components["schemas"]["Hold"][];
            /** @description Its id. */
            id: components["schemas"]["SandboxId"];
            /** @description What it was made of. */
            image: string;
            /** @description Labels that its maker gave it. */
            labels: {
                [key: string]: string;
            };
            /** @description When it is deleted unless its lease is renewed; absent without a lease. */
            leaseEndsAt?: components["schemas"]["Timestamp"];
            /** @description Times in force, defaults included. */
            lifecycle: components["schemas"]["Lifecycle"];
            /** @description Limits in force. */
            limits: components["schemas"]["Limits"];
            /** @description Its name, if it was given one. */
            name?: components["schemas"]["SandboxName"];
            /** @description The pool that it came of. */
            pool?: components["schemas"]["OfPool"];
            /** @description Files inside with the values of secrets, which whatever runs there can read. */
            secretFiles?: string[];
            /** @description The snapshot that it came from, or that was taken of it last. */
            snapshotId?: components["schemas"]["SnapshotId"];
            /** @description Where in its life it is. */
            state: components["schemas"]["State"];
            /** @description When it came into its state. */
            stateSince: components["schemas"]["Timestamp"];
            /** @description The version of a template that it was made of, as in `web@2`; it may be gone. */
            template?: components["schemas"]["TemplateRef"];
            /** @description How strongly it is isolated. */
            tier: components["schemas"]["Tier"];
            /** @description How its creation went. */
            timeline: components["schemas"]["Timeline"];
            /** @description Volumes that are shown in it. */
            volumes?: components["schemas"]["MountedVolume"][];
            /** @description Where the files are that it began with, if it was given any. */
            workspace?: components["schemas"]["Octets"];
        };
        /** @description How a sandbox is that runs, as it is seen from outside. */
        SandboxHealth: {
            /**
             * Format: int64
             * @description How long its guest took to answer, in microseconds.
             */
            answerUs?: number;
            /** @description What its guest says; absent if that gave no answer. */
            guest?: components["schemas"]["GuestHealth"];
            /** @description Why it is not well; empty if it is. */
            reasons: string[];
            /** @description How it is. */
            status: components["schemas"]["SandboxHealthStatus"];
        };
        /**
         * @description How a sandbox is, in one word.
         * @enum {string}
         */
        SandboxHealthStatus: "ok" | "degraded" | "silent";
        /**
         * @description Names one sandbox for good: it is never given again.
         * @example sbx_0001020304050607abff
         */
        SandboxId: string;
        /**
         * @description A name of a sandbox, which is also a valid DNS label.
         * @example web
         */
        SandboxName: string;
        /** @description A page of a list. */
        SandboxPage: {
            /** @description The cursor of the next page; absent on the last one. */
            next?: components["schemas"]["Cursor"];
            /** @description The sandboxes, oldest first. */
            sandboxes: components["schemas"]["Sandbox"][];
        };
        /**
         * @description A sandbox by its id or its name.
         * @example web
         */
        SandboxRef: string;
        /**
         * @description What a caller may do. Each includes the ones before it.
         * @enum {string}
         */
        Scope: "read" | "run" | "admin";
        /** @description A secret, without its value. */
        Secret: {
            /** @description When it was first set. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Its name. */
            name: components["schemas"]["SecretName"];
            /** @description When it was last set. */
            updatedAt: components["schemas"]["Timestamp"];
        };
        /**
         * @description A name of a secret; dots alone are none.
         * @example GITHUB
         */
        SecretName: string;
        /**
         * @description Where in a request a secret is put: `bearer`, `basic:USER`, `header:NAME` or `query:NAME`.
         * @example bearer
         */
        SecretUse: string;
        /** @description All secrets of a server by name, without their values; there are at most 1000. */
        Secrets: {
            /** @description The secrets. */
            secrets: components["schemas"]["Secret"][];
        };
        /**
         * @description A service: started with the sandbox and whenever it wakes, and kept running. It has either
         *     a `command` or a `shell`.
         *
         *     `{"name": "web", "shell": "npm run dev", "directory": "/home/user/app", "ready": {"port":
         *     5173}}` is one.
         */
        Service: {
            /** @description Or a program and its arguments. */
            command?: components["schemas"]["Octets"][];
            /** @description Where it starts; the home of the sandbox's user where nothing is said. */
            directory?: string;
            /** @description Variables beside the sandbox's own. */
            env?: components["schemas"]["Env"];
            /** @description Its name, unique in its sandbox: lower-case letters, digits and dashes. */
            name: string;
            /** @description When it counts as ready; as soon as it runs where nothing is said. */
            ready?: components["schemas"]["Ready"];
            /**
             * Format: int64
             * @description How long it may take to be ready, in milliseconds; 30000 where nothing is said.
             */
            readyTimeoutMs?: number;
            /** @description Whether it is started again after it has ended. */
            restart?: components["schemas"]["Restart"];
            /** @description What runs: a command line, as `sh -c` takes it. */
            shell?: string;
            /** @description As whom; `root` needs the flag `user_root`. */
            user?: components["schemas"]["User"];
        };
        /**
         * @description How a service is.
         * @enum {string}
         */
        ServiceState: "starting" | "ready" | "late" | "waiting" | "failed" | "stopped";
        /** @description A service as the API shows it. */
        ServiceStatus: {
            /** @description Why it is not ready, if it is not. */
            cause?: string;
            /** @description The exec that it runs as, or ran as last: its output is that exec's. */
            execId?: components["schemas"]["ExecId"];
            /** @description Its name. */
            name: string;
            /**
             * Format: int64
             * @description How often it was started again since its sandbox started.
             */
            restarts: number;
            /** @description How it is. */
            state: components["schemas"]["ServiceState"];
        };
        /** @description The services of a sandbox. */
        Services: {
            /** @description In the order in which they were declared. */
            services: components["schemas"]["ServiceStatus"][];
        };
        /** @description Sets a mode. */
        SetMode: {
            /** @description The mode. */
            mode: components["schemas"]["Mode"];
            /** @description Of which; a last link is followed. */
            path: components["schemas"]["Octets"];
        };
        /** @description Changes a pool. */
        SetPool: {
            /**
             * Format: int32
             * @description How many members are kept ready; those beyond it go.
             */
            size: number;
        };
        /** @description Gives a volume another limit. */
        SetVolumeLimit: {
            /**
             * Format: int64
             * @description Bytes that its files may take on the disk, and no fewer than they take; `null` takes the limit
             *     away.
             */
            bytes: number;
        };
        /** @description A budget that all sandboxes with certain labels have together. */
        SharedBudget: {
            /** @description How much there is. */
            budget: components["schemas"]["Budget"];
            /** @description It is of the sandboxes that have all of these labels; of all if there are none. */
            labels: {
                [key: string]: string;
            };
            /** @description What the operator calls it. */
            name: string;
            /** @description The amount that is used up, as in `cpu_us`; nothing starts until there is more. */
            overdrawn?: string;
            /** @description For how long, each time; for ever where nothing is said. */
            period?: components["schemas"]["BudgetPeriod"];
            /** @description When there is a new one. */
            renewsAt?: components["schemas"]["Timestamp"];
            /** @description How much was used of it in this period. */
            used: components["schemas"]["Used"];
        };
        /** @description A signal by its name or its number. */
        Signal: ("HUP" | "SIGHUP" | "INT" | "SIGINT" | "QUIT" | "SIGQUIT" | "ILL" | "SIGILL" | "TRAP" | "SIGTRAP" | "ABRT" | "SIGABRT" | "BUS" | "SIGBUS" | "FPE" | "SIGFPE" | "KILL" | "SIGKILL" | "USR1" | "SIGUSR1" | "SEGV" | "SIGSEGV" | "USR2" | "SIGUSR2" | "PIPE" | "SIGPIPE" | "ALRM" | "SIGALRM" | "TERM" | "SIGTERM" | "STKFLT" | "SIGSTKFLT" | "CHLD" | "SIGCHLD" | "CONT" | "SIGCONT" | "STOP" | "SIGSTOP" | "TSTP" | "SIGTSTP" | "TTIN" | "SIGTTIN" | "TTOU" | "SIGTTOU" | "URG" | "SIGURG" | "XCPU" | "SIGXCPU" | "XFSZ" | "SIGXFSZ" | "VTALRM" | "SIGVTALRM" | "PROF" | "SIGPROF" | "WINCH" | "SIGWINCH" | "IO" | "SIGIO" | "PWR" | "SIGPWR" | "SYS" | "SIGSYS") | number;
        /** @description Asks for a signal to be sent. */
        SignalExec: {
            /** @description Which signal. */
            signal: components["schemas"]["Signal"];
            /** @description Who gets it. */
            target?: components["schemas"]["Target"];
        };
        /**
         * @description A snapshot as the API shows it.
         *
         *     It has the files of the sandbox's home, and of its root file system if that can be written.
         *     Memory is not in it, and neither are `/tmp`, `/run` and `/dev/shm`.
         */
        Snapshot: {
            /**
             * Format: int64
             * @description Bytes that were copied.
             */
            copiedBytes: number;
            /** @description When it was taken. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description When it is deleted; never where nothing is said. */
            expiresAt?: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Names of files that were looked at; absent where none had to be.
             */
            files?: number;
            /**
             * Format: int64
             * @description How long the sandbox stood still for it, in microseconds; 0 if it did not run.
             */
            frozenUs: number;
            /** @description Its id. */
            id: components["schemas"]["SnapshotId"];
            /** @description What the sandbox was made of. */
            image: string;
            /** @description Labels that its maker gave it. */
            labels: {
                [key: string]: string;
            };
            /** @description Limits that sandboxes have that are made of it, unless they are given others. */
            limits: components["schemas"]["Limits"];
            /** @description The snapshot that the sandbox came from or had been taken last, if that is there. */
            parentId?: components["schemas"]["SnapshotId"];
            /** @description The sandbox that it was taken of, which may be gone. */
            sandboxId: components["schemas"]["SandboxId"];
            /** @description That sandbox's name at the time. */
            sandboxName?: components["schemas"]["SandboxName"];
            /** @description How strongly the sandbox was isolated. */
            tier: components["schemas"]["Tier"];
            /**
             * Format: int64
             * @description How long it took, in microseconds.
             */
            tookUs: number;
            /** @description How its files came to be. */
            way: components["schemas"]["SnapshotWay"];
        };
        /** @description What a snapshot has that is otherwise in another one. */
        SnapshotDiff: {
            /** @description At most as many as were asked for: the first ones by path, a directory before what is in it. */
            entries: components["schemas"]["DiffEntry"][];
            /** @description There may be more of either. */
            isCut: boolean;
            /** @description The later one, as it were: what `after` is about. */
            snapshotId: components["schemas"]["SnapshotId"];
            /** @description What could not be compared; at most as many. */
            uncompared: components["schemas"]["Uncompared"][];
            /** @description What `before` is about; absent where that is the image alone, and an empty home. */
            withId?: components["schemas"]["SnapshotId"];
        };
        /**
         * @description Names one snapshot for good.
         * @example snp_0001020304050607abff
         */
        SnapshotId: string;
        /** @description A page of a list. */
        SnapshotPage: {
            /** @description What to ask for the next page with, as `after`; absent on the last one. */
            next?: components["schemas"]["SnapshotId"];
            /** @description The snapshots, the oldest first. */
            snapshots: components["schemas"]["Snapshot"][];
        };
        /**
         * @description How the files of a snapshot came to be.
         * @enum {string}
         */
        SnapshotWay: "rename" | "subvolume" | "reflink" | "copy" | "archive";
        /**
         * @description Asks for a command to be run. Either `command` or `shell` is there.
         *
         *     `{"shell": "npm test"}` is such a request, and so is
         *     `{"command": ["python3", "-"], "stdin": "pipe", "timeout_ms": 60000}`.
         */
        StartExec: {
            /** @description The program, looked for along PATH if it has no slash, and its arguments. */
            command?: components["schemas"]["Octets"][];
            /** @description Where it starts; the sandbox's working directory where nothing is said. */
            directory?: components["schemas"]["Octets"];
            /** @description Variables beside and before those of the sandbox. */
            env?: components["schemas"]["Env"];
            /**
             * @description Its id. A request that is sent again under the same id runs nothing a second
             *     time: it gives the exec that is there, if that is of the same command.
             */
            id?: components["schemas"]["ExecId"];
            /**
             * Format: int64
             * @description How many bytes are kept of each stream: a quarter from its head, the rest from its
             *     tail. 1 MiB where nothing is said.
             */
            keepBytes?: number;
            /** @description A name for people, shown wherever the exec is. */
            name?: string;
            /**
             * @description What becomes of it when the request that started it ends first: one that waits
             *     for its end, or that follows it.
             */
            onDisconnect?: components["schemas"]["OnDisconnect"];
            /**
             * @description The session that it is part of, which its first exec makes: `shell` begins with
             *     the directory, variables, functions and options that the exec before it left. A
             *     session runs one exec at a time.
             */
            session?: string;
            /** @description A text that `/bin/sh -c` runs, or bash where there is a session. */
            shell?: string;
            /** @description What its standard input is. A terminal is its own. */
            stdin?: components["schemas"]["Stdin"];
            /** @description Run it in a terminal of this size; what that shows is `stdout`. */
            terminal?: components["schemas"]["TerminalSize"];
            /**
             * Format: int64
             * @description Killed after so many milliseconds, with all that it started.
             */
            timeoutMs?: number;
            /** @description As whom it runs. */
            user?: components["schemas"]["User"];
        };
        /** @description What is answered with the status 200. */
        StartExecAnswer: components["schemas"]["Exec"] | components["schemas"]["ExecResult"];
        /**
         * @description Where in its life a sandbox is.
         * @enum {string}
         */
        State: "creating" | "running" | "pausing" | "paused" | "resuming" | "stopping" | "stopped" | "archived" | "failed" | "deleted";
        /**
         * @description What a command's standard input is.
         * @enum {string}
         */
        Stdin: "closed" | "pipe";
        /**
         * @description One of an exec's two streams.
         * @enum {string}
         */
        Stream: "stdout" | "stderr";
        /**
         * @description Who gets a signal.
         * @enum {string}
         */
        Target: "group" | "process" | "session";
        /** @description A template. */
        Template: {
            /** @description Its name. */
            name: components["schemas"]["TemplateName"];
            /** @description Its versions, the latest first. */
            versions: components["schemas"]["TemplateVersion"][];
        };
        /** @description Files that are put into a directory. */
        TemplateCopy: {
            /** @description Which: an archive that was sent before. */
            files: components["schemas"]["FilesDigest"];
            /** @description Into which directory, which is made if it is not there. */
            to: string;
        };
        /**
         * @description A name of a template.
         * @example python-tools
         */
        TemplateName: string;
        /**
         * @description A template, or one version of it: `NAME` or `NAME@VERSION`.
         * @example python-tools@2
         */
        TemplateRef: string;
        /** @description What runs in sandboxes of a template. */
        TemplateStart: {
            /** @description When it counts as ready; as soon as it runs where nothing is said. */
            ready?: components["schemas"]["Ready"];
            /**
             * Format: int64
             * @description How long it may take to be ready, in milliseconds; 30000 where nothing is said.
             */
            readyTimeoutMs?: number;
            /** @description A command line, as `sh -c` takes it. It is the service `start`. */
            shell: string;
        };
        /** @description One step of a template. Paths that are not absolute are below the last `workdir`, or the home. */
        TemplateStep: {
            /**
             * @description Runs a text with `/bin/sh -c`, with the variables, directory and user of the steps before
             *     it. The build fails unless it ends with 0.
             */
            run: string;
        } | {
            /** @description Puts files into a directory, as the sandbox's user. */
            copy: components["schemas"]["TemplateCopy"];
        } | {
            /** @description Sets variables for the steps behind it and for sandboxes. */
            env: components["schemas"]["Env"];
        } | {
            /**
             * @description Has the steps behind it and commands of sandboxes begin in this directory, which is made if
             *     it is not there.
             */
            workdir: string;
        } | {
            /** @description Says as whom the steps behind it and the start command run. */
            user: components["schemas"]["User"];
        };
        /** @description A version of a template. */
        TemplateVersion: {
            /** @description By which build. */
            buildId: components["schemas"]["BuildId"];
            /** @description When it was made. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Variables of its sandboxes. */
            env: components["schemas"]["Env"];
            /** @description The image below it. */
            image: string;
            /** @description What they may use where their request says nothing else. */
            limits: components["schemas"]["Limits"];
            /** @description What runs in them. */
            start?: components["schemas"]["TemplateStart"];
            /** @description What was done. */
            steps: components["schemas"]["TemplateStep"][];
            /** @description The template that it was built on, with the version. */
            template?: components["schemas"]["TemplateRef"];
            /**
             * Format: int32
             * @description Its number: each build has one more than the one before.
             */
            version: number;
            /** @description Where their commands begin; as the image has it where nothing is said. */
            workdir?: string;
        };
        /** @description The templates. */
        Templates: {
            /** @description By their names. */
            templates: components["schemas"]["Template"][];
        };
        /** @description The size of a terminal, in characters. */
        TerminalSize: {
            /**
             * Format: int32
             * @description Characters in a line.
             */
            columns: number;
            /**
             * Format: int32
             * @description Lines.
             */
            rows: number;
        };
        /**
         * @description How strongly a sandbox is isolated.
         * @enum {string}
         */
        Tier: "wasm" | "container" | "gvisor" | "microvm";
        /** @description When each stage was over, in microseconds since the request; absent if it was not. */
        Timeline: {
            /**
             * Format: int64
             * @description The request was checked and admitted.
             */
            acceptedUs?: number;
            /**
             * Format: int64
             * @description It is recorded, and has its place on the host.
             */
            allocatedUs?: number;
            /**
             * Format: int64
             * @description Its workspace is there, and all of its services are ready; absent where it has none.
             */
            dependenciesReadyUs?: number;
            /**
             * Format: int64
             * @description Its files can be used.
             */
            filesystemReadyUs?: number;
            /**
             * Format: int64
             * @description The first command in it ended. It is absent until somebody sees that, as who waits
             *     for the command does, and who asks for the timeline.
             */
            firstCommandDoneUs?: number;
            /**
             * Format: int64
             * @description Its image is there, pulled or unpacked if it was not; absent if that is `host`.
             */
            imageReadyUs?: number;
            /**
             * Format: int64
             * @description Its network can be used.
             */
            networkReadyUs?: number;
            /**
             * Format: int64
             * @description Its first process answers.
             */
            runtimeReadyUs?: number;
        };
        /**
         * Format: date-time
         * @description A point in time to the microsecond: RFC 3339 in UTC.
         * @example 2026-11-30T01:10:00.123456Z
         */
        Timestamp: string;
        /**
         * @description Whether a request that failed changed anything.
         * @enum {string}
         */
        TookEffect: "yes" | "no" | "unknown";
        /** @description A path that could not be compared, with all that is below it. */
        Uncompared: {
            /** @description Where it is in a sandbox, absolute. */
            path: components["schemas"]["Octets"];
            /** @description Why, as in "cannot be read". */
            reason: string;
        };
        /** @description An archive that was unpacked. */
        Unpacked: {
            /**
             * Format: int64
             * @description Bytes of files.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Files, directories and links.
             */
            entries: number;
        };
        /** @description One that is there and cannot be read. */
        UnreadableArchive: {
            /** @description Its id. */
            id: components["schemas"]["ArchiveId"];
            /** @description Why, in one sentence. */
            reason: string;
        };
        /** @description A directory below cannot be watched. */
        Unwatched: {
            /** @description Why. */
            code: components["schemas"]["ErrorCode"];
            /** @description Which, below the directory that is watched. */
            path: components["schemas"]["Octets"];
        };
        /** @description What one sandbox has used in its whole life, however often it and its server were stopped. */
        Usage: {
            /** @description When it was asked for. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description When it was deleted, if it was. */
            deletedAt?: components["schemas"]["Timestamp"];
            /** @description Its files, where it is asked about alone and they were measured. */
            disk?: components["schemas"]["DiskUsage"];
            /** @description Its labels. */
            labels: {
                [key: string]: string;
            };
            /** @description Its name. */
            name?: components["schemas"]["SandboxName"];
            /** @description Which sandbox. */
            sandboxId: components["schemas"]["SandboxId"];
            /** @description How much. */
            used: components["schemas"]["Used"];
        };
        /**
         * @description How usage is written.
         * @enum {string}
         */
        UsageFormat: "json" | "csv";
        /** @description A page of what sandboxes have used. */
        UsagePage: {
            /** @description The cursor of the next page; absent on the last one. */
            next?: components["schemas"]["Cursor"];
            /** @description Those that were deleted so long ago that they are only known together. */
            older: components["schemas"]["UsageTotal"];
            /** @description One by one, the oldest sandbox first. */
            sandboxes: components["schemas"]["Usage"][];
            /** @description All that were asked for, on every page and older. */
            total: components["schemas"]["UsageTotal"];
        };
        /** @description What several sandboxes have used together. */
        UsageTotal: {
            /**
             * Format: int64
             * @description How many they are.
             */
            sandboxes: number;
            /** @description How much. */
            used: components["schemas"]["Used"];
        };
        /** @description How much of something is used. */
        Use: {
            /**
             * Format: int64
             * @description At most.
             */
            limit: number;
            /**
             * Format: int64
             * @description Now.
             */
            used: number;
        };
        /** @description Amounts that only grow. */
        Used: {
            /**
             * Format: int64
             * @description Processor time, in microseconds.
             */
            cpuUs?: number;
            /**
             * Format: int64
             * @description Memory as its control group counts it, which is also what is cached of its files, times how
             *     long: MiB times seconds. It is looked at twice a minute, and more often at first.
             */
            memoryMibSeconds?: number;
            /** @description What went through the gateway. */
            network?: components["schemas"]["NetworkUsage"];
        };
        /**
         * @description As whom a command runs.
         * @enum {string}
         */
        User: "user" | "root";
        /**
         * @description Who may use a preview.
         * @enum {string}
         */
        Visibility: "private" | "public";
        /** @description A volume as the API shows it. */
        Volume: {
            /** @description How it came of another one, if it did. */
            copied?: components["schemas"]["VolumeCopy"];
            /** @description When it was made. */
            createdAt: components["schemas"]["Timestamp"];
            /**
             * @description The folder of the server's machine that it is, if it is one: deleting the volume leaves that as
             *     it is.
             */
            hostPath?: string;
            /** @description Its id. */
            id: components["schemas"]["VolumeId"];
            /** @description Nobody writes to it, ever: a snapshot. */
            isReadOnly?: boolean;
            /** @description Labels that its maker gave it. */
            labels: {
                [key: string]: string;
            };
            /** @description The most that may lie on it; none where nothing is said. */
            limit?: components["schemas"]["VolumeLimit"];
            /** @description Its name, which no other volume has. */
            name: components["schemas"]["VolumeName"];
            /**
             * @description The sandboxes that have it, those that are stopped included: while there is one, it is not
             *     deleted.
             */
            usedBy: components["schemas"]["VolumeUse"][];
            /**
             * Format: int64
             * @description Bytes that its files took on the disk when it was measured last, which is done where there is a
             *     limit.
             */
            usedBytes?: number;
        };
        /**
         * @description What a sandbox may do with a volume.
         * @enum {string}
         */
        VolumeAccess: "read_only" | "writer" | "shared";
        /** @description How a volume came of another one. */
        VolumeCopy: {
            /**
             * Format: int64
             * @description Bytes that were copied.
             */
            copiedBytes: number;
            /**
             * Format: int64
             * @description How long the sandboxes stood still that write to that one, in microseconds; 0 if none did.
             */
            frozenUs: number;
            /** @description Of which, which may be gone. */
            of: components["schemas"]["VolumeId"];
            /** @description How its files came to be: by `subvolume`, `reflink` or `copy`. */
            way: components["schemas"]["SnapshotWay"];
        };
        /**
         * @description Names one volume for good.
         * @example vol_0001020304050607abff
         */
        VolumeId: string;
        /** @description The most that may lie on a volume, and who sees to it. */
        VolumeLimit: {
            /**
             * Format: int64
             * @description Bytes that its files may take on the disk.
             */
            bytes: number;
            /** @description Who sees to it. */
            enforcedBy: components["schemas"]["VolumeLimitBy"];
        };
        /**
         * @description Who sees to the limit of a volume.
         * @enum {string}
         */
        VolumeLimitBy: "file_system" | "measurement";
        /** @description Asks for a volume to be shown in a sandbox. */
        VolumeMount: {
            /** @description What it may do with it. */
            access?: components["schemas"]["VolumeAccess"];
            /**
             * @description Where inside: an absolute path without `.` and `..`, that is neither in a directory of the
             *     system's nor the home, `/tmp`, `/var` or `/root` themselves. What the image has there is
             *     covered.
             */
            path: string;
            /** @description Which, by its id or name. */
            volume: components["schemas"]["VolumeRef"];
        };
        /**
         * @description A name of a volume.
         * @example models
         */
        VolumeName: string;
        /** @description A page of a list. */
        VolumePage: {
            /** @description What to ask for the next page with, as `after`; absent on the last one. */
            next?: components["schemas"]["VolumeName"];
            /** @description The volumes by name. */
            volumes: components["schemas"]["Volume"][];
        };
        /**
         * @description A volume by its id or its name.
         * @example models
         */
        VolumeRef: string;
        /** @description How a sandbox has a volume. */
        VolumeUse: {
            /** @description What it may do with it. */
            access: components["schemas"]["VolumeAccess"];
            /**
             * @description It may run, so that what it has keeps others from what does not go together with that. One
             *     that is stopped keeps nobody from anything, and asks again when it is started.
             */
            isHeld: boolean;
            /** @description Where it has it. */
            path: string;
            /** @description The sandbox. */
            sandboxId: components["schemas"]["SandboxId"];
            /** @description Its name. */
            sandboxName?: components["schemas"]["SandboxName"];
        };
        /**
         * @description Waits for something, for a limited time.
         *
         *     `{"for": {"port": 5173}, "timeout_ms": 30000}` is such a request.
         */
        Wait: {
            /** @description For what: one of these. */
            for: components["schemas"]["WaitFor"];
            /**
             * Format: int64
             * @description How long; 0 looks once.
             */
            timeoutMs: number;
        };
        /** @description What can be waited for. */
        WaitFor: {
            /**
             * Format: int32
             * @description Something listens on this port of its loopback, 1 to 65535.
             */
            port: number;
        } | {
            /** @description An exec prints a line, or has printed it. */
            log: components["schemas"]["LogLine"];
        } | {
            /** @description A port answers over HTTP. */
            http: components["schemas"]["HttpAnswer"];
        };
        /** @description What was waited for is there. */
        Waited: {
            /** @description The line, cut where it is very long; or the status. */
            matched?: string;
            /**
             * Format: int64
             * @description How long it took, in milliseconds.
             */
            waitedMs: number;
        };
        /**
         * @description What a request gets of a pool that has no member ready.
         * @enum {string}
         */
        WhenExhausted: "refuse" | "cold";
        /**
         * @description The files that a sandbox begins with: a clone of a repository, or an archive that comes
         *     with the request. They are there before its services start; where they cannot be had,
         *     there is no sandbox.
         */
        Workspace: {
            /** @description Which repository is cloned. Absent where an archive comes with the request. */
            git?: components["schemas"]["WorkspaceGit"];
            /**
             * @description Where they are put: an absolute path inside, `/home/user/workspace` where nothing is
             *     said. It is made, with the directories above it.
             */
            path?: components["schemas"]["Octets"];
        };
        /** @description A repository that is cloned inside, as the sandbox's user. */
        WorkspaceGit: {
            /** @description Which branch or tag is checked out; the repository's own where nothing is said. */
            branch?: string;
            /**
             * Format: int32
             * @description Only so many commits of its history.
             */
            depth?: number;
            /**
             * @description Which: the absolute path of a repository or of a bundle in the image, or a URL
             *     `file:///…`. Others are refused as long as sandboxes have no network.
             */
            url: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
