// go-zookeeper as a contender. README.md lists its commands and answers.
//
// Usage: contender SERVERS PATH mutex 0 NAME
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

type silence struct{}

func (silence) Printf(string, ...interface{}) {}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-zookeeper:", err)
		os.Exit(1)
	}
}

func connect(servers string) *zk.Conn {
	conn, events, err := zk.Connect(strings.Split(servers, ","), 20*time.Second, zk.WithLogger(silence{}))
	check(err)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

// inside is one turn's check; README.md says how it works.
type inside struct {
	exclusive string
	name      string
	log       *os.File
	made      bool
}

func newInside(directory, name string) (*inside, error) {
	log, err := os.OpenFile(directory+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0644)
	return &inside{exclusive: directory + "/exclusive", name: name, log: log}, err
}

// enter returns whether another contender is inside already.
func (turn *inside) enter() (bool, error) {
	file, err := os.OpenFile(turn.exclusive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0644)
	if err != nil && !os.IsExist(err) {
		return false, err
	}
	turn.made = err == nil
	if turn.made {
		file.Close()
	}
	_, err = turn.log.WriteString(turn.name + " mutex\n")
	return !turn.made, err
}

func (turn *inside) leave() error {
	if !turn.made {
		return nil
	}
	turn.made = false
	return os.Remove(turn.exclusive)
}

type contender struct {
	conn *zk.Conn
	lock *zk.Lock
	name string
	once *inside
}

func (c *contender) turns(count int, directory string, unlocked bool) (int, error) {
	turn, err := newInside(directory, c.name)
	overlaps := 0
	for i := 0; i < count && err == nil; i++ {
		if !unlocked {
			if err = c.lock.Lock(); err != nil {
				break
			}
		}
		var overlap bool
		if overlap, err = turn.enter(); err != nil {
			break
		}
		if overlap {
			overlaps++
		}
		if err = turn.leave(); err == nil && !unlocked {
			err = c.lock.Unlock()
		}
	}
	return overlaps, err
}

func (c *contender) answer(words []string) (string, error) {
	switch words[0] {
	case "turns":
		count, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		overlaps, err := c.turns(count, words[2], len(words) > 3)
		return fmt.Sprintf("done %d %d", count, overlaps), err
	case "acquire":
		if len(words) > 1 {
			return "", fmt.Errorf("go-zookeeper's lock knows no timeout")
		}
		return "ok", c.lock.Lock()
	case "release":
		return "ok", c.lock.Unlock()
	case "enter":
		var err error
		if c.once, err = newInside(words[1], c.name); err != nil {
			return "", err
		}
		overlap, err := c.once.enter()
		if overlap {
			return "overlap", err
		}
		return "ok", err
	case "leave":
		return "ok", c.once.leave()
	case "close":
		c.conn.Close()
		return "ok", nil
	}
	return "", fmt.Errorf("go-zookeeper cannot do that")
}

func main() {
	args := os.Args
	if len(args) != 6 || args[3] != "mutex" {
		fmt.Fprintln(os.Stderr, "Usage: contender SERVERS PATH mutex 0 NAME")
		os.Exit(2)
	}
	conn := connect(args[1])
	warm := zk.NewLock(conn, args[2]+"-warm-"+args[5], zk.WorldACL(zk.PermAll))
	check(warm.Lock())
	check(warm.Unlock())
	c := &contender{conn: conn, lock: zk.NewLock(conn, args[2], zk.WorldACL(zk.PermAll)), name: args[5]}
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		answer, err := c.answer(strings.Split(input.Text(), " "))
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
		if input.Text() == "close" {
			return
		}
	}
}
