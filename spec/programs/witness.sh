#!/bin/sh
# Runs in place of a job, and complains in $WITNESS/complaints if more than LIMIT (1) run at once under the same NAME. It takes a file
# by flock, which ends with its last process and has nothing to do with ZooKeeper. Writes its begin and end to $WITNESS/log. If there
# is a FIFO $WITNESS/gate, it stays until that is opened for writing.
#
# Usage: witness.sh NAME [LIMIT]

name=$1 limit=${2:-1} slot=1
exec 9>"$WITNESS/$name.1"
until flock -n 9; do
    slot=$((slot + 1))
    if [ "$slot" -gt "$limit" ]; then
        echo "$name: more than $limit at once" >>"$WITNESS/complaints"
        break
    fi
    exec 9>"$WITNESS/$name.$slot"
done
echo "begin $name" >>"$WITNESS/log"
if [ -p "$WITNESS/gate" ]; then
    read -r _ <"$WITNESS/gate"
else
    /bin/sleep 0.05 # the job
fi
echo "end $name" >>"$WITNESS/log"
