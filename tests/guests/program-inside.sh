#!/bin/bash
# The first process of a machine with Debian's kernel: runs the program as root and as
# an ordinary user, says PASS or FAIL for each check, and switches the machine off.
export PATH=/usr/bin GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=1 \
    GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main

mount -t proc proc /proc
mount -t sysfs sysfs /sys 2>/dev/null
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
insmod /overlay.ko
chown -R 1000:1000 /home/u

# check NAME SCRIPT: the script runs in the project, as the user, with `as` in front of
# what needs that.
check() {
    output=$(timeout -s KILL 60 bash -c "$as_user; $2" 2>&1 </dev/null)
    status=$?
    if test $status = 0; then
        echo "PASS $who: $1"
    else
        echo "FAIL $who: $1 (status $status)"
        while read -r line; do echo "NOTE $line"; done <<<"$output"
    fi
}

for who in root user; do
    if test $who = root; then
        project=/srv/project
        as_user='as() { env HOME=/root "$@"; }'
    else
        project=/home/u/project
        as_user='as() { setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/u "$@"; }'
    fi
    bash -c "$as_user; as mkdir $project"
    cd $project || echo "FAIL $who: no project"
    owner=$(stat -c %u .)

    check "a file that is made inside belongs to the project's owner" \
        "as atoll run -- sh -c 'echo hi > made' && test \"\$(stat -c %u made)\" = $owner"
    check "nothing outside of the project is reached" \
        'as atoll run -- sh -c "! touch /usr/x && ! ls /srv/other 2>/dev/null && touch /tmp/x ~/x"'
    check "a repository can be made" 'as atoll run -- git init -q new && test -d new/.git'
    check "hooks can be made without the sandbox" \
        'as git init -q old && as mkdir -p old/.git/hooks && as touch old/.git/hooks/bare'
    check "hooks of a repository cannot be made inside" \
        '! as atoll run -- sh -c "echo x > old/.git/hooks/pre-commit" 2>/dev/null &&
        ! test -e old/.git/hooks/pre-commit'
    check "a hidden file cannot be read" \
        'as sh -c "echo secret > .env; echo .env > .aiignore" &&
        ! as atoll run -- cat .env 2>/dev/null && grep -q secret .env'
    check "a review keeps the project as it was, until it is applied" \
        'as atoll run --workspace review -- sh -c "echo two > made; mkdir d; echo new > d/f; mv d e" &&
        grep -q hi made && as atoll diff | grep -q "^+two" && as atoll apply --yes &&
        grep -q two made && grep -q new e/f'
    if test $who = root; then
        check "a limit of memory is kept and named" \
            'as atoll run --json --memory 64MiB -- tail /dev/zero 2>&1 |
            grep -q "\"limits_hit\":\[{[^]]*\"memory\""'
    else
        check "a limit of memory that nobody delegated is said not to be kept" \
            'as atoll run --json --memory 64MiB -- cat 2>&1 | grep -q "the memory limit is not enforced"'
    fi
    check "the exit status is the command's own" 'as atoll run -- sh -c "exit 7"; test $? = 7'
    check "a limit of processes of the machine is no reason to fail" \
        'ulimit -u 500; as atoll run -- sh -c "exit 0"'
    check "doctor finds the tier to work" 'as atoll doctor | grep -q "container .*works"'
done
left=$(ls /sys/fs/cgroup | grep -c atoll)
test "$left" = 0 && echo "PASS no control group is left" || echo "FAIL $left control groups are left"
sync
echo "DONE $(cat /proc/uptime)"
echo o >/proc/sysrq-trigger
sleep 60
