// go-zookeeper as a contestant: each client has a connection, each contender a goroutine.
//
// Usage: contestant cycle SERVERS PATH COUNT
//
//	contestant contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR
//	contestant crowd SERVERS PATH one|many CLIENTS EACH WARM_UP SECONDS DIR
//	contestant line SERVERS PROXY PATH CLIENTS EACH DIR
//	contestant storm SERVERS PATH CLIENTS PATIENCE DIR
//
// bench/contestants.lua says where each of these is described.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

type silence struct{}

func (silence) Printf(string, ...interface{}) {}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

func connect(servers string, session time.Duration) *zk.Conn {
	conn, events, err := zk.Connect(strings.Split(servers, ","), session, zk.WithLogger(silence{}))
	check(err)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

func connectAll(servers string, session time.Duration, count int) []*zk.Conn {
	conns := make([]*zk.Conn, count)
	for i := range conns {
		conns[i] = connect(servers, session)
	}
	return conns
}

func closeAll(conns []*zk.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}

func newLock(conn *zk.Conn, path string) *zk.Lock {
	return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
}

func microseconds(value time.Duration) float64 {
	return float64(value) / 1000
}

func medianMicroseconds(values []time.Duration) float64 {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	return microseconds(values[len(values)/2])
}

// The quantiles of sorted values.
func quantiles(values []time.Duration) string {
	texts := make([]string, 101)
	for percent := range texts {
		texts[percent] = fmt.Sprintf("%.1f", microseconds(values[(len(values)-1)*percent/100]))
	}
	return strings.Join(texts, ",")
}

func cycle(servers, path string, count int) {
	conn := connect(servers, 60*time.Second)
	defer conn.Close()
	lock := newLock(conn, path)
	acquires := make([]time.Duration, count)
	cycles := make([]time.Duration, count)
	for i := -(count/10 + 1); i < count; i++ {
		before := time.Now()
		check(lock.Lock())
		between := time.Now()
		check(lock.Unlock())
		if i >= 0 {
			acquires[i] = between.Sub(before)
			cycles[i] = time.Since(before)
		}
	}
	fmt.Printf("name=go-zookeeper count=%d acquire_us=%.1f cycle_us=%.1f quantiles_us=%s\n", count,
		medianMicroseconds(acquires), medianMicroseconds(cycles), quantiles(cycles))
}

// The holder of the lock renames a file in a directory that only one process can rename.
type gate struct {
	free, taken string
	violations  int64
}

func newGate(dir string) *gate {
	return &gate{free: dir + "/free", taken: dir + "/taken"}
}

func (g *gate) pass() {
	if os.Rename(g.free, g.taken) != nil {
		atomic.AddInt64(&g.violations, 1)
	}
	os.Rename(g.taken, g.free)
}

func crowd(servers, path, kind string, clients, each int, warmUp, seconds float64, dir string) {
	conns := connectAll(servers, 10*time.Second, clients)
	its := newGate(dir)
	var turns int64
	from := time.Now().Add(time.Duration(warmUp * float64(time.Second)))
	to := from.Add(time.Duration(seconds * float64(time.Second)))
	takeTurns := func(lock *zk.Lock) {
		for at := from; at.Before(to); {
			check(lock.Lock())
			at = time.Now()
			if kind == "one" {
				its.pass()
			}
			if !at.Before(from) && at.Before(to) {
				atomic.AddInt64(&turns, 1)
			}
			check(lock.Unlock())
		}
	}
	var all sync.WaitGroup
	for i := 0; i < clients*each; i++ {
		itsPath := path
		if kind == "many" {
			itsPath = fmt.Sprintf("%s-%d", path, i+1)
		}
		lock := newLock(conns[i%clients], itsPath)
		all.Add(1)
		go func() {
			defer all.Done()
			takeTurns(lock)
		}()
	}
	all.Wait()
	closeAll(conns)
	fmt.Printf("name=go-zookeeper clients=%d each=%d seconds=%.3f turns=%d violations=%d failures=0\n", clients, each,
		seconds, turns, its.violations)
}

// Reports that this program is ready, and waits until it may begin.
func awaitStart(dir string) {
	check(os.WriteFile(dir+"/ready-1", nil, 0o600))
	for {
		time.Sleep(10 * time.Millisecond)
		if text, err := os.ReadFile(dir + "/go"); err == nil {
			moment := time.UnixMicro(int64(number(strings.TrimSpace(string(text))) * 1e6))
			time.Sleep(time.Until(moment))
			return
		}
	}
}

func line(servers, proxy, path string, clients, each int, dir string) {
	held := newLock(connect(servers, 60*time.Second), path)
	check(held.Lock())
	conns := connectAll(proxy, 60*time.Second, clients)
	its := newGate(dir)
	var turns int64
	var all sync.WaitGroup
	for i := 0; i < clients*each; i++ {
		lock := newLock(conns[i%clients], path)
		all.Add(1)
		go func() {
			defer all.Done()
			check(lock.Lock())
			turns++ // protected by the lock
			its.pass()
			check(lock.Unlock())
		}()
	}
	awaitStart(dir)
	check(held.Unlock())
	all.Wait()
	fmt.Printf("name=go-zookeeper turns=%d violations=%d failures=0\n", turns, its.violations)
}

func storm(servers, path string, clients int, patience float64, dir string) {
	conns := connectAll(servers, 30*time.Second, clients)
	locks := make([]*zk.Lock, clients)
	for i, conn := range conns {
		locks[i] = newLock(conn, fmt.Sprintf("%s-%d", path, i+1))
		check(locks[i].Lock())
		check(locks[i].Unlock())
	}
	awaitStart(dir)
	moments := make(chan time.Time, clients)
	for _, lock := range locks {
		go func(lock *zk.Lock) {
			for lock.Lock() != nil {
				time.Sleep(time.Millisecond)
			}
			moments <- time.Now()
		}(lock)
	}
	deadline := time.After(time.Duration(patience * float64(time.Second)))
	without := clients
	var last time.Time
	for waits := true; waits && without > 0; {
		select {
		case last = <-moments:
			without--
		case <-deadline:
			waits = false
		}
	}
	fmt.Printf("name=go-zookeeper clients=%d failures=0 last=%.6f without=%d\n", clients, float64(last.UnixMicro())/1e6,
		without)
}

func main() {
	args := os.Args
	whole := func(index int) int { return int(number(args[index])) }
	switch mode := strings.Join(args[1:2], ""); {
	case mode == "cycle" && len(args) == 5:
		cycle(args[2], args[3], whole(4))
	case mode == "contend" && len(args) == 8:
		crowd(args[2], args[3], "one", whole(4), 1, number(args[5]), number(args[6]), args[7])
	case mode == "crowd" && len(args) == 10 && (args[4] == "one" || args[4] == "many"):
		crowd(args[2], args[3], args[4], whole(5), whole(6), number(args[7]), number(args[8]), args[9])
	case mode == "line" && len(args) == 8:
		line(args[2], args[3], args[4], whole(5), whole(6), args[7])
	case mode == "storm" && len(args) == 7:
		storm(args[2], args[3], whole(4), number(args[5]), args[6])
	default:
		fmt.Fprintln(os.Stderr, "Usage: contestant cycle|contend|crowd|line|storm SERVERS …")
		os.Exit(2)
	}
}
