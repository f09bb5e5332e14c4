# Runs $3 as one exec of a session whose state lies in $1, after $2.
__atoll_state=$1 __atoll_before=$2 __atoll_script=$3
set --

# Writes what the next exec takes up. The file has another name until it is whole.
__atoll_leave() {
    { __atoll_status=$? __atoll_flags=$-; set +exu; } 2>/dev/null
    trap - EXIT
    __atoll_options=$(set +o; shopt -p)
    __atoll_ifs=$IFS
    unset -v IFS
    {
        printf 'cd -- %q 2>/dev/null || cd /\n' "$PWD"
        printf 'umask %s\n' "$(umask)"
        printf 'IFS=%q\n' "$__atoll_ifs"
        for __atoll_name in $(compgen -A variable); do
            case $__atoll_name in
                # The shell's own, which cannot be set or would say the wrong thing.
                BASH | BASHOPTS | BASHPID | BASH_* | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | \
                    GROUPS | HOSTTYPE | IFS | LINENO | MACHTYPE | OSTYPE | PIPESTATUS | PPID | PWD | \
                    RANDOM | SECONDS | SHELLOPTS | SHLVL | SRANDOM | UID | _ | __atoll_*) ;;
                *) declare -p "$__atoll_name" 2>/dev/null ;;
            esac
        done
        for __atoll_name in $(compgen -A function); do
            case $__atoll_name in __atoll_*) ;; *) declare -f "$__atoll_name" ;; esac
        done
        alias -p
        printf '%s\n' "$__atoll_options"
        # Last, for nothing of the rest may fail by them or be shown.
        case $__atoll_flags in *e*) echo 'set -e' ;; esac
        case $__atoll_flags in *u*) echo 'set -u' ;; esac
        case $__atoll_flags in *x*) echo 'set -x' ;; esac
    } >"$__atoll_state.$$" 2>/dev/null && command mv -f -- "$__atoll_state.$$" "$__atoll_state"
    exit "$__atoll_status"
}

trap __atoll_leave EXIT
if [ -e "$__atoll_state" ]; then
    . "$__atoll_state"
fi
eval "$__atoll_before"
eval "$__atoll_script"
