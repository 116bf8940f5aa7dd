# The entry points. Recipes of more than a line are in tools/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

SECONDS ?= 60
CYCLES ?= 100000
ARGS ?=

PREFIX ?= /usr/local
LUA_VERSION ?= 5.4
LUADIR ?= $(PREFIX)/share/lua/$(patsubst luajit,5.1,$(LUA_VERSION))
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man/man1
LUA ?= $(patsubst lualuajit,luajit,lua$(LUA_VERSION))
LIBDIR ?= $(PREFIX)/lib/lua/$(patsubst luajit,5.1,$(LUA_VERSION))
# For bash, zsh and fish, where these look for them.
COMPLETIONS = bash-completion/completions/zklock zsh/site-functions/_zklock fish/vendor_completions.d/zklock.fish

.PHONY: help setup build quick test test-all check test-c test-client test-sim test-virtual test-real test-nginx-asan test-rock test-deb test-servers test-install test-systems test-arm64 deb lint format coverage fuzz soak soak-nginx explore bench bench-quick demo demo-openresty screenshots test-browser examples docs install clean

help: ## this list
	@echo 'zklock: a distributed lock for Lua over ZooKeeper'
	@echo
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
	    while IFS="$$(printf '\t')" read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

setup: ## install the Debian packages that building and testing need
	@tools/setup.sh

build: ## the module for every Lua (5.5 where it is installed), build/<lua>/zklock/core.so
	@tools/setup.sh build
	@tools/build.sh 5.1 5.2 5.3 5.4 $$(pkg-config --exists lua5.5 && echo 5.5) luajit

quick: ## build the module, and run the first tests: the specs in virtual time on one Lua, and the simulation; in two minutes
	@tools/setup.sh quick
	@tools/test.sh quick

test: ## all that must pass before a change lands, in minutes; ends with "N passed, N failed"
	@tools/setup.sh test
	@tools/test.sh

test-all: ## the same, and all specs on real servers, all sanitizers, long campaigns, soaks: takes an hour or more
	@tools/setup.sh test browser databases package
	@tools/test.sh all

check: ## tests for the files that you changed, in seconds; FILE=spec/… for one file, LUA=luajit for another Lua
	@tools/check.sh $(FILE)

test-c: ## the C unit tests under sanitizers
	@tools/setup.sh test
	@tools/test.sh c

test-sim: ## the engine, and random Lua programs, against a simulated ZooKeeper
	@tools/setup.sh test
	@tools/test.sh sim

test-virtual: ## the specs of behaviour in virtual time, on Lua 5.1, 5.5 and LuaJIT, and on 5.4 under sanitizers
	@tools/setup.sh test
	@tools/test.sh virtual

test-real: ## all specs against real servers, six Luas, sanitizers
	@tools/setup.sh test databases
	@tools/test.sh real

test-nginx-asan: ## all specs inside nginx, its workers under AddressSanitizer
	@tools/setup.sh test
	@tools/test.sh nginx-asan

test-client: ## the C unit tests with the C client rebuilt under ThreadSanitizer
	@tools/setup.sh test
	@tools/rebuilt-client.sh thread

test-rock: ## install with luarocks into an empty tree, and load
	@tools/setup.sh test
	@tools/test.sh rock

test-deb: ## build the Debian packages, and install, upgrade and remove them in a clean system
	@tools/setup.sh package
	@tools/test-deb.sh

test-servers: ## several versions of the ZooKeeper server, without installing them; ARGS='testing conformance' for one and a part
	@tools/setup.sh test
	@tools/test.sh servers $(ARGS:%=-L '^%$$')

test-install: ## the commands of docs/install.md in clean systems of Debian and Ubuntu; ARGS=trixie for one of them
	@tools/setup.sh package
	@tools/test-install.sh $(ARGS)

test-systems: ## the suites of `make test` in clean Debian 12, 13, testing and Ubuntu 24.04; ARGS='trixie c' for one of them and a part
	@tools/setup.sh package
	@tools/test-systems.sh $(ARGS)

test-arm64: ## compiled for arm64 and run by qemu-user: C units, specs in virtual time and on real servers; ARGS=units for a part
	@tools/setup.sh arm64
	@tools/test.sh arm64 $(ARGS:%=-R '%')

lint: ## formatters, analysers, and warnings of two compilers
	@tools/setup.sh lint
	@tools/lint.sh

format: ## lay out the C sources
	@tools/setup.sh lint
	@git ls-files --cached --others --exclude-standard '*.c' '*.h' | xargs clang-format -i

coverage: ## the lines that the tests run: build/coverage/index.html
	@tools/setup.sh test databases
	@tools/coverage.sh

fuzz: ## SECONDS=60: run each fuzzer
	@tools/setup.sh fuzz
	@tools/fuzz.sh $(SECONDS)

soak: ## SECONDS=60: faults on real servers, clients, links; new seeds for the simulation; locks in nginx; ARGS=… goes to the campaign
	@tools/setup.sh test
	@ZKLOCK_SOAK=$(SECONDS) ZKLOCK_CAMPAIGN='$(ARGS)' tools/test.sh soak

soak-nginx: ## CYCLES=100000: lock cycles inside nginx; fails if its worker grows
	@tools/setup.sh soak-nginx
	@tools/soak-nginx.sh $(CYCLES)

explore: ## small simulated worlds in every order of events, and the rules whose breaking they detect; takes long; ARGS=… goes to it
	@tools/setup.sh test
	@tools/build.sh c
	@build/c/explore --far --states 1000000 --jobs $$(nproc) $(ARGS)
	@build/c/explore --breaks --all --states 20000 --jobs $$(nproc) $(ARGS)

bench: ## measure, and compare with other locks; ARGS=… goes to it
	@tools/setup.sh bench
	@tools/build.sh 5.4 luajit
	@bench/run $(ARGS)

bench-quick: ## the same with fewer measurements, in about two minutes
	@tools/setup.sh bench
	@tools/build.sh 5.4 luajit
	@bench/run --quick $(ARGS)

demo: ## 800 buyers want 288 pieces: without a lock, with one per process, with zklock
	@tools/setup.sh demo
	@tools/build.sh 5.4
	@ZKLOCK_CPATH='$(CURDIR)/build/5.4/?.so' tools/demo.sh $(ARGS)

demo-openresty: ## the same as a web service: 800 requests to two nginx services behind a proxy
	@tools/setup.sh demo-openresty
	@tools/build.sh luajit
	@LUA_PATH='$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;' LUA_CPATH='$(CURDIR)/build/luajit/?.so;;' \
	    tools/zookeeper run -- luajit tools/demo-openresty.lua

screenshots: ## the pictures of the live view in the documentation, in chromium
	@tools/setup.sh demo browser
	@tools/build.sh 5.4
	@tools/browser.sh screenshots docs/pictures

test-browser: ## the live view in chromium, against real servers and nginx
	@tools/setup.sh test browser
	@tools/build.sh 5.4 luajit
	@tools/browser.sh test $(ARGS)

# Debian has redis-lua, which is plain Lua, for 5.1 to 5.3 only.
examples: ## run the programs of examples/, one after the other; ARGS=… names some
	@tools/setup.sh demo
	@tools/build.sh 5.4
	@LUA_PATH='$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;;/usr/share/lua/5.3/?.lua' LUA_CPATH='$(CURDIR)/build/5.4/?.so;;' \
	    tools/zookeeper run -- sh -c 'for name; do \
	        printf "\n== %s\n" $$name; lua5.4 examples/$$name.lua "$$ZOOKEEPER" || failed="$$failed $$name"; \
	    done; [ -z "$$failed" ] || { echo "failed:$$failed"; false; }' \
	    examples $(or $(ARGS),$(filter-out common,$(basename $(notdir $(wildcard examples/*.lua)))))

docs: ## the site, build/site/index.html; checks the links of all pages, and the width of their code
	@tools/setup.sh docs
	@tools/docs.sh

deb: ## the Debian packages lua-zklock and zklock: build/deb/*.deb
	@tools/setup.sh deb
	@tools/deb.sh

install: ## PREFIX=/usr/local LUA_VERSION=5.4 (or luajit), DESTDIR
	@tools/build.sh $(LUA_VERSION)-release
	@$(LUA) -e 'require "argparse"' 2>/dev/null || { echo "make install needs $(LUA), and its module argparse (Debian: lua-argparse)" >&2; exit 1; }
	install -d $(DESTDIR)$(LIBDIR)/zklock
	install -m 755 build/$(LUA_VERSION)-release/zklock/core.so $(DESTDIR)$(LIBDIR)/zklock/core.so
	install -m 755 build/$(LUA_VERSION)-release/zklock/process.so $(DESTDIR)$(LIBDIR)/zklock/process.so
	cd lua && find . -name '*.lua' -exec install -D -m 644 {} $(abspath $(DESTDIR)$(LUADIR))/{} \;
	install -d $(DESTDIR)$(BINDIR)
	tools/command.sh $(LUA) $(LUADIR) $(LIBDIR) >$(DESTDIR)$(BINDIR)/zklock
	chmod 755 $(DESTDIR)$(BINDIR)/zklock
	install -d $(DESTDIR)$(MANDIR) $(addprefix $(DESTDIR)$(PREFIX)/share/,$(dir $(COMPLETIONS)))
	export LUA_PATH='$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;' LUA_CPATH='$(CURDIR)/build/$(LUA_VERSION)-release/?.so;;'; set -e; \
	$(LUA) tools/manpages.lua $(DESTDIR)$(MANDIR) $(LUA) lua/zklock/cli/main.lua; \
	set -- bash zsh fish; for file in $(COMPLETIONS); do \
	    $(LUA) lua/zklock/cli/main.lua completion $$1 >$(DESTDIR)$(PREFIX)/share/$$file; shift; \
	done

clean: ## remove build/
	rm -rf build csrc/*/*.o zklock/core.so
	@rmdir zklock 2>/dev/null || true
