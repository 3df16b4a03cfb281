#!/bin/sh
# What local steps bring on a slow link: two hosts, each with a server and a worker, that train the tutorial's ResNet18 with
# one thread each. The hosts are network namespaces of this machine (Linux, root, ip and tc), joined by a link whose rate is
# limited in both directions.
#
#	bench/cpu/slowlink.sh                       100mbit, a gradient exchange at each step against rounds of 8 and 32 local steps
#	RATE=1gbit DELAY=5ms LOCAL="0 4 16" STEPS=16 ROUNDS=1 bench/cpu/slowlink.sh
#
# LOCAL lists the local steps of a round, 0 for none. Each way takes STEPS steps, or ROUNDS rounds if that is more.
# A line for each: local steps, steps, images/s of both workers together.
set -eu
cd "$(dirname "$0")/../.."
rate=${RATE:-100mbit} delay=${DELAY:-0ms} steps=${STEPS:-6} rounds=${ROUNDS:-2} batch=${BATCH:-64}
tmp=$(mktemp -d)
a=pgA$$ b=pgB$$
running=
clean() {
	for p in $running; do kill "$p" 2>/dev/null || true; done
	ip netns del $a 2>/dev/null || true
	ip netns del $b 2>/dev/null || true
	rm -rf "$tmp"
}
trap clean EXIT
trap 'exit 1' INT TERM
go build -o "$tmp/launch" ./launch
go build -o "$tmp/cpu" ./bench/cpu

ip netns add $a
ip netns add $b
ip -n $a link add pg0 type veth peer name pg0 netns $b
i=1
for ns in $a $b; do
	ip -n $ns link set lo up
	ip -n $ns addr add 10.213.7.$i/24 dev pg0
	ip -n $ns link set pg0 up
	tc -n $ns qdisc add dev pg0 root handle 1: tbf rate "$rate" burst 128kb latency 200ms
	if [ "$delay" != 0ms ]; then
		tc -n $ns qdisc add dev pg0 parent 1:1 netem delay "$delay" limit 10000
	fi
	i=$((i + 1))
done

# node NAMESPACE ADDRESS ROLE RANK COMMAND...
node() {
	ns=$1 host=$2 role=$3 rank=$4
	shift 4
	ip netns exec "$ns" env DMLC_ROLE="$role" PARAGON_RANK="$rank" DMLC_NODE_HOST="$host" DMLC_PS_ROOT_URI=10.213.7.1 DMLC_PS_ROOT_PORT=9210 \
		DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 PARAGON_SECRET="$secret" PARAGON_LISTEN="$host:$((9211 + rank))" "$@"
}

echo "link $rate, delay $delay each way; $(git rev-parse --short=12 HEAD), $(nproc) cores"
echo "local-steps steps images/s"
for h in ${LOCAL:-0 8 32}; do
	n=$steps
	[ $((h * rounds)) -gt "$n" ] && n=$((h * rounds))
	secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	running=
	node $a 10.213.7.1 scheduler 0 env -u PARAGON_LISTEN "$tmp/launch" role >"$tmp/scheduler" 2>&1 &
	running="$running $!"
	sleep 1
	node $a 10.213.7.1 server 0 "$tmp/launch" role >"$tmp/server0" 2>&1 &
	running="$running $!"
	node $b 10.213.7.2 server 1 "$tmp/launch" role >"$tmp/server1" 2>&1 &
	running="$running $!"
	node $b 10.213.7.2 worker 1 "$tmp/cpu" train --threads 1 --batch "$batch" --steps "$n" --local-steps "$h" >"$tmp/worker1" 2>&1 &
	other=$!
	running="$running $other"
	if ! node $a 10.213.7.1 worker 0 "$tmp/cpu" train --threads 1 --batch "$batch" --steps "$n" --local-steps "$h" >"$tmp/worker0" 2>&1 || ! wait $other; then
		cat "$tmp"/scheduler "$tmp"/server? "$tmp"/worker? >&2
		exit 1
	fi
	cat "$tmp"/worker? | awk -v h="$h" -v batch="$batch" '/^spell/ { steps = $2; rate += $2 * batch / $3 } END { printf "%11d %5d %8.1f\n", h, steps, rate }'
	wait
done
