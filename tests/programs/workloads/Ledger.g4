// A small language of accounts and rules: what AntlrLoad generates a parser for and parses.
grammar Ledger;

ledger : (account | definition | entry)* EOF ;

account : 'account' path ('{' attribute (',' attribute)* '}')? ';' ;
attribute : ID '=' (STRING | NUMBER | 'yes' | 'no') ;
path : ID (':' ID)* ;

definition : 'rule' ID '(' (parameter (',' parameter)*)? ')' block ;
parameter : ID ('=' expression)? ;
block : '{' statement* '}' ;
statement
  : 'let' ID '=' expression ';'
  | 'if' condition=expression block ('else' (block | statement))?
  | 'for' ID 'in' expression block
  | 'post' amount=expression 'to' path ('when' expression)? ';'
  | 'return' expression? ';'
  | expression ';'
  | block
  ;

entry : DATE STRING '{' posting+ '}' ;
posting : path amount=expression? ('@' expression)? ';' ;

expression
  : <assoc=right> expression '^' expression
  | '-' expression
  | expression ('*' | '/' | '%') expression
  | expression ('+' | '-') expression
  | expression ('<' | '<=' | '>' | '>=') expression
  | expression ('==' | '!=') expression
  | 'not' expression
  | expression 'and' expression
  | expression 'or' expression
  | <assoc=right> expression '?' expression ':' expression
  | expression '(' (expression (',' expression)*)? ')'
  | expression '.' ID
  | expression '[' expression ']'
  | '[' (expression (',' expression)*)? ']'
  | '(' expression ')'
  | NUMBER ID?
  | STRING
  | ID
  ;

DATE : DIGIT DIGIT DIGIT DIGIT '-' DIGIT DIGIT '-' DIGIT DIGIT ;
NUMBER : DIGIT+ ('.' DIGIT+)? ;
ID : [a-zA-Z_] [a-zA-Z_0-9]* ;
STRING : '"' (ESCAPE | ~["\\\r\n])* '"' ;
COMMENT : '#' ~[\r\n]* -> skip ;
SPACE : [ \t\r\n]+ -> skip ;

fragment DIGIT : [0-9] ;
fragment ESCAPE : '\\' (["\\nt] | 'u' HEX HEX HEX HEX) ;
fragment HEX : [0-9a-fA-F] ;
