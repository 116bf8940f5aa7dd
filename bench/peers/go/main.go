// go-zookeeper as a contestant: each client a connection of its own and a goroutine.
//
// Usage: contestant cycle SERVERS PATH COUNT
//
//	contestant contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR
//
// A holder renames a file in DIR that only one can rename: `violations` counts the times that somebody else had.
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

func medianMicroseconds(values []time.Duration) float64 {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	return float64(values[len(values)/2]) / 1000
}

func cycle(servers, path string, count int) {
	conn := connect(servers, 60*time.Second)
	defer conn.Close()
	lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
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
	fmt.Printf("name=go-zookeeper count=%d acquire_us=%.1f cycle_us=%.1f\n", count, medianMicroseconds(acquires),
		medianMicroseconds(cycles))
}

func contend(servers, path string, clients int, warmUp, seconds float64, dir string) {
	free, taken := dir+"/free", dir+"/taken"
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		conns[i] = connect(servers, 10*time.Second)
	}
	var turns, violations int64
	from := time.Now().Add(time.Duration(warmUp * float64(time.Second)))
	to := from.Add(time.Duration(seconds * float64(time.Second)))
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Add(1)
		go func(conn *zk.Conn) {
			defer all.Done()
			lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
			for {
				check(lock.Lock())
				at := time.Now()
				if os.Rename(free, taken) != nil {
					atomic.AddInt64(&violations, 1)
				}
				if !at.Before(from) && at.Before(to) {
					atomic.AddInt64(&turns, 1)
				}
				os.Rename(taken, free)
				check(lock.Unlock())
				if !at.Before(to) {
					return
				}
			}
		}(conn)
	}
	all.Wait()
	for _, conn := range conns {
		conn.Close()
	}
	fmt.Printf("name=go-zookeeper clients=%d seconds=%.3f turns=%d violations=%d failures=0\n", clients, seconds, turns,
		violations)
}

func main() {
	args := os.Args
	if len(args) == 5 && args[1] == "cycle" {
		cycle(args[2], args[3], int(number(args[4])))
	} else if len(args) == 8 && args[1] == "contend" {
		contend(args[2], args[3], int(number(args[4])), number(args[5]), number(args[6]), args[7])
	} else {
		fmt.Fprintln(os.Stderr, "Usage: contestant cycle|contend SERVERS PATH …")
		os.Exit(2)
	}
}
