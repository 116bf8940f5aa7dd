--- lock: something that is acquired and released.
--
-- `Client:mutex` makes a lock. The two halves of a read/write lock (`RwLock`) are locks too, and a `Semaphore` is one. Two
-- objects on one path exclude each other, also within one client. Times are in seconds. Keep a reference to a lock while it is
-- held: a lock object that is garbage-collected gives up its hold.
--
-- Any number of coroutines (inside nginx: of requests) may use one object, for example one that a module keeps. Each coroutine
-- acquires for itself and waits for the others. `held`, `token`, `release` and the other methods are about what the running
-- coroutine holds. If a coroutine has never called acquire, try_acquire or with_lock of the object, they are about the hold
-- that it was given: the only hold of the object. If the object has several holds, such a coroutine has none of them. `acquire`
-- returns a lock with all methods that stands for this acquisition, and `with_lock` passes such a lock to its function. It is
-- the object itself, or a similar object if other coroutines use the object.

-- Implementation.
--
-- The C side decides which locks may be held at the same time, by the mode that a lock asks for. So all locks are one class with
-- a different *kind* (Lock.MUTEX, …). zklock.semaphore adds what only semaphores have. The Lua side decides who may ask when
-- (one acquisition of an object at a time), keeps deadlines, and notifies the program.
--
-- A *hold* (zklock.hold) is one acquisition as Lua sees it, from its request to its end. `hold.acquisition` is the handle that
-- the C side has of it. A lock object has at most one hold (`_hold`) or one attempt at one (`client._attempts[lock]`).
-- The table of attempts is weak. If an attempt's coroutine is never resumed, or an error ended it where waits cannot be
-- protected, the attempt and its C acquisition are collected and the object is free again. Further coroutines use
-- companions, lock objects behind this one. zklock.owner finds the right object. Public methods ask it first. All other
-- functions are about one object.
--
-- This file assembles the class from its parts, each of which requires only parts above it:
--
--   * class: the kinds, the objects, the classes that extend it; arguments: what its methods take
--   * record: notes of an acquisition; ending: the end of a hold, and what the program is told
--   * attempt: one acquisition, from beginning to end; deadlock: acquisitions that would never end
--   * acquire, release, with_lock, ask: the methods

local class = require "zklock.lock.class"
require "zklock.lock.attempt"
require "zklock.lock.deadlock"
require "zklock.lock.acquire"
require "zklock.lock.release"
require "zklock.lock.with_lock"
require "zklock.lock.ask"

return class.Lock
