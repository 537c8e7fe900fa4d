// Writes JSON text, value by value; commas and quotes are its business.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

namespace pypto::runtime {

class JsonWriter {
public:
    JsonWriter &open(char bracket) { // '{' or '['
        separate();
        text_ += bracket;
        first_ = true;
        return *this;
    }
    JsonWriter &close(char bracket) {
        text_ += bracket;
        first_ = false;
        return *this;
    }
    JsonWriter &key(const std::string &name) {
        separate();
        quote(name);
        text_ += ':';
        first_ = true; // the value follows without a comma
        return *this;
    }
    template <typename Integer> JsonWriter &number(Integer value) {
        static_assert(std::is_integral_v<Integer>);
        return raw(std::to_string(value));
    }
    /// A float; JSON knows no infinities and NaN, so those are the texts that readers of the dump expect, and null.
    JsonWriter &real(float value);
    JsonWriter &text(const std::string &value) {
        separate();
        quote(value);
        return *this;
    }
    /// A 64-bit number as text, since readers may keep numbers as doubles.
    JsonWriter &wide(uint64_t value) { return text(std::to_string(value)); }
    JsonWriter &boolean(bool value) { return raw(value ? "true" : "false"); }
    JsonWriter &null() { return raw("null"); }
    JsonWriter &newline() {
        text_ += '\n';
        return *this;
    }
    template <typename T> JsonWriter &list(const T *values, uint32_t count) {
        open('[');
        for (uint32_t i = 0; i < count; ++i)
            number(values[i]);
        return close(']');
    }
    /// A list of numbers, truth values and texts.
    template <typename... Values> JsonWriter &row(const Values &...values) {
        open('[');
        (value(values), ...);
        return close(']');
    }

    /// JSON text as it is.
    JsonWriter &raw(const std::string &value) {
        separate();
        text_ += value;
        return *this;
    }

    const std::string &str() const { return text_; }
    /// The text so far, which is the caller's from here on; what comes next goes on from it.
    std::string take() { return std::exchange(text_, {}); }

private:
    template <typename Value> void value(const Value &value) {
        if constexpr (std::is_same_v<Value, bool>)
            boolean(value);
        else if constexpr (std::is_integral_v<Value>)
            number(value);
        else
            text(value);
    }
    void separate() {
        if (!first_)
            text_ += ',';
        first_ = false;
    }
    void escape(char control);
    void quote(const std::string &value) {
        text_ += '"';
        for (const char c : value) {
            if (static_cast<unsigned char>(c) < 0x20) {
                escape(c);
                continue;
            }
            if (c == '"' || c == '\\')
                text_ += '\\';
            text_ += c;
        }
        text_ += '"';
    }

    std::string text_;
    bool first_ = true;
};

/// A file that is written piece by piece and appears whole. What is not finished is removed.
class GrowingFile {
public:
    GrowingFile() = default;
    GrowingFile(const GrowingFile &) = delete;
    GrowingFile &operator=(const GrowingFile &) = delete;
    ~GrowingFile() { drop(); }

    /// Begins a file under a temporary name, and drops one that is not finished. Throws FaultError naming the path.
    void open(const std::string &path);
    /// Throws nothing: `finish` tells of what could not be written.
    void append(const void *piece, size_t bytes);
    void append(const std::string &piece) { append(piece.data(), piece.size()); }
    /// Lets it appear under its name. Throws FaultError naming the path.
    void finish();
    /// Removes what is not finished.
    void drop();

private:
    std::string path_;
    std::FILE *file_ = nullptr;
    int error_ = 0; // of the first piece that could not be written
};

/// Writes a file under a temporary name and renames it. Throws FaultError naming the path.
void write_file(const std::string &path, const std::string &content);
/// Creates a directory and those above it.
void make_directories(const std::string &path);

} // namespace pypto::runtime
