// The line of an address, from addr2line.
#include "checking/source_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace pypto::runtime {

namespace {

// Returns a program's output. Its words are passed as they are, without a shell: paths may hold any character.
std::string output_of(const char *const *words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return {};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const bool started =
        posix_spawnp(&child, words[0], &actions, nullptr, const_cast<char *const *>(words), environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string text;
    char piece[4096];
    while (started) {
        const ssize_t size = ::read(ends[0], piece, sizeof(piece));
        if (size > 0)
            text.append(piece, static_cast<size_t>(size));
        else if (size == 0 || errno != EINTR)
            break;
    }
    ::close(ends[0]);
    while (started && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return text;
}

} // namespace

std::string source_line(const void *address) {
    Dl_info info{};
    if (!dladdr(address, &info) || info.dli_fname == nullptr)
        return {};
    const uint64_t offset = reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase) - 1;
    char place[32];
    std::snprintf(place, sizeof(place), "0x%llx", static_cast<unsigned long long>(offset));
    const char *const words[] = {"addr2line", "-Cfie", info.dli_fname, place, nullptr};
    const std::string text = output_of(words);
    // Function and place by turns, from the innermost out: the first place outside our headers is the kernel's.
    bool is_place = false;
    for (size_t start = 0, end = 0; start < text.size(); start = end + 1, is_place = !is_place) {
        end = std::min(text.find('\n', start), text.size());
        const std::string line = text.substr(start, end - start);
        if (is_place && line[0] != '?' && line.find("/include/pto/") == std::string::npos)
            return line.substr(0, line.find(" (discriminator"));
    }
    return {};
}

} // namespace pypto::runtime
