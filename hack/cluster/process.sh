# shellcheck shell=bash
# Processes with a pid file and a log: start, ask, wait, stop. Sourced by up, down and test.
#
# A pid file holds "PID START", where START is when the process began: a pid that the system gave to
# somebody else in the meantime is never stopped. The caller sets RUN.

# say MESSAGE: one line of progress, with the seconds since the script started.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

# fail MESSAGE: say why and leave; the caller's traps clean up.
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# process_began PID: a text that differs between two processes with the same pid; fails if none runs.
process_began() {
    local stat
    if [[ -d /proc/self ]]; then
        stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
        stat=${stat##*) }                   # the command name may hold spaces: cut it off
        [[ ${stat%% *} != Z ]] || return 1  # a zombie has stopped
        cut -d' ' -f20 <<<"$stat"
    else
        ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' '_'
    fi
}

ENTER=() # what every program is called through: nsenter, where there is a node

# start_process NAME COMMAND...: in the background, niced, apart from the terminal.
start_process() {
    local name=$1 pid began
    shift
    mkdir -p "$RUN/log" "$RUN/pid"
    setsid nice "${ENTER[@]}" "$@" >"$RUN/log/$name.log" 2>&1 </dev/null 9>&- &
    pid=$!
    disown "$pid"
    began=$(process_began "$pid") || began=gone
    printf '%s %s\n' "$pid" "$began" >"$RUN/pid/$name"
}

# process_pid NAME: the pid if it runs; fails otherwise.
process_pid() {
    local pid began
    read -r pid began 2>/dev/null <"$RUN/pid/$1" || return 1
    [[ $(process_began "$pid") == "$began" ]] || return 1
    printf '%s\n' "$pid"
}

runs() { process_pid "$1" >/dev/null; }

# stop_process NAME: ask, wait 15 s, then insist. Nothing to do if it does not run.
stop_process() {
    local name=$1 pid tries
    if pid=$(process_pid "$name"); then
        kill "$pid" 2>/dev/null || true
        for ((tries = 0; tries < 150; tries++)); do
            runs "$name" || break
            sleep 0.1
        done
        if runs "$name"; then
            say "$name (pid $pid) did not stop within 15 s: killing it"
            kill -9 "$pid" 2>/dev/null || true
        fi
    fi
    rm -f "$RUN/pid/$name"
}

# wait_until NAME SECONDS CHECK...: until CHECK succeeds. Returns 1 if NAME ends or the time is over.
wait_until() {
    local name=$1 deadline=$((SECONDS + $2))
    shift 2
    until ("$@") >/dev/null 2>&1; do # in a subshell: a trap must not run with this redirection
        runs "$name" || return 1
        ((SECONDS < deadline)) || return 1
        sleep 0.2
    done
}

# show_log NAME: the end of its log, for an error message.
show_log() {
    printf -- '--- the last lines of %s\n' "$RUN/log/$1.log" >&2
    tail -n 20 "$RUN/log/$1.log" >&2 || true
    printf -- '---\n' >&2
}
